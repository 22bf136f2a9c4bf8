"""The table of served APIs, and what else says the same: docstrings, and what a start imports."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from ottla.broker.metrics.requests import api_name
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.api_versions import ApiVersion
from tests.broker.rig import LISTENER, Rig

# Advertised from version 0 on, and refused below this.
FIRST_PRODUCE_VERSION = 3


@pytest.fixture
def rig(rig: Rig) -> Rig:
    """With what brokers of a cluster say to each other, too."""
    rig.core.handlers.serve_brokers()
    return rig


def handler_module(row: ApiVersion) -> str:
    return f"ottla.broker.handlers.{ApiKey(row.api_key).name.lower()}"


def test_each_api_has_a_handler_file_that_names_the_versions_of_the_table(rig: Rig) -> None:
    for row in rig.dispatcher.advertised(LISTENER):
        first = FIRST_PRODUCE_VERSION if row.api_key == ApiKey.PRODUCE else row.min_version
        versions = f"{first}-{row.max_version}" if first < row.max_version else f"{first}"
        docstring = import_module(handler_module(row)).__doc__ or ""
        assert docstring.startswith(f"{api_name(row.api_key)} {versions}: ")


def test_handlers_that_remember_by_version_have_room_for_the_last_one(rig: Rig) -> None:
    for row in rig.dispatcher.advertised(LISTENER):
        module = import_module(handler_module(row))
        assert getattr(module, "LAST_SERVED_VERSION", row.max_version) == row.max_version


def test_every_file_of_a_handler_is_in_the_table(rig: Rig) -> None:
    folder = Path(import_module("ottla.broker.handlers").__file__ or "").parent
    named = {path.stem for path in folder.glob("*.py") if path.stem.upper() in ApiKey.__members__}
    assert named == {ApiKey(row.api_key).name.lower() for row in rig.dispatcher.advertised(LISTENER)}


START = """
import asyncio, sys
from ottla.broker.broker import Broker
from ottla.core.config.config import BrokerConfig

async def live(directory):
    config = BrokerConfig.parse({
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": directory,
        "ottla.coordination.path": f"{directory}/coordination.db",
    })
    broker = Broker(config, asyncio.get_running_loop())
    await broker.start()
    print(*sys.modules)
    await broker.stop()

asyncio.run(live(sys.argv[1]))
"""


@pytest.mark.process
def test_a_broker_without_groups_starts_without_their_code_and_without_rare_handlers(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(finished.stdout.split())
    assert {f"ottla.broker.handlers.{name}" for name in ("produce", "fetch", "metadata", "create_topics")} <= loaded
    rare = ("join_group", "heartbeat", "offset_commit", "describe_configs", "elect_leaders", "delete_groups")
    assert not {f"ottla.broker.handlers.{name}" for name in rare} & loaded
    assert not {name for name in loaded if name.startswith("ottla.coordinator")}
