"""Every entry that needs an extra names it in one line, where it is not installed."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from ottla.core.extras import EXTRA_OF
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

NOWHERE = "127.0.0.1:1"
STORE = ["--store-path", "/nonexistent/store"]

# The arguments of `ottla`, the library that is missed first, the extras.
COMMANDS = [
    (["perf", "produce", "-b", NOWHERE, "-t", "orders", "-n", "10", "--arrow"], "--arrow", "pyarrow", "columns"),
    (["perf", "consume", "-b", NOWHERE, "-t", "orders", "-n", "10", "--arrow"], "--arrow", "pyarrow", "columns"),
    *(
        (["pipeline", *arguments], "this command", library, "pipeline")
        for library, arguments in [
            ("pyarrow", ["run", "-b", NOWHERE, *STORE, "--once"]),
            ("pyarrow", ["replay", "-b", NOWHERE, *STORE]),
            ("py4j", ["export", "-b", NOWHERE, "/nonexistent/files"]),
            ("pyspark", ["redrive", "-b", NOWHERE]),
            ("pyarrow", ["init-store", *STORE]),
            ("pyarrow", ["init-store", "--store", "cassandra", "--cassandra", f"{NOWHERE}/ottla"]),
            ("pyarrow", ["show", *STORE]),
            ("pyarrow", ["late", *STORE]),
            ("pyarrow", ["expire", *STORE]),
            ("pyarrow", ["reconcile", *STORE]),
            ("pyarrow", ["explain", "a1", *STORE]),
            ("pyarrow", ["score", "--truth", __file__, *STORE]),
            ("phonenumbers", ["region", "+491701234567"]),
        ]
    ),
]

SEND = """
from ottla import Producer
with Producer(bootstrap_servers=ADDRESS) as producer:
    producer.send_arrow("orders", None)
"""
AIO_SEND = """
from ottla.aio import Producer
async def send():
    async with Producer(bootstrap_servers=ADDRESS) as producer:
        await producer.send_arrow("orders", None)
asyncio.run(send())
"""
AIO_POLL = """
from ottla.aio import Consumer
async def poll():
    async with Consumer(bootstrap_servers=ADDRESS) as consumer:
        await consumer.poll_arrow(0)
asyncio.run(poll())
"""

# Code, what it asks for, the library that is missed first, the extras.
PYTHON = [
    ("import ottla.columns; ottla.columns.read", "ottla.columns.read", "pyarrow", "columns"),
    ("from ottla.columns import ColumnDecoder", "ottla.columns.ColumnDecoder", "numpy", "columns"),
    ("from ottla.spark import register", "ottla.spark.register", "pyspark", "spark and columns"),
    ("from ottla.spark import spark_session", "ottla.spark.spark_session", "pyspark", "spark and columns"),
    ("import ottla.testing.plugin", "ottla.testing.plugin", "pytest", "pytest"),
    ("from ottla import Consumer; Consumer(bootstrap_servers=ADDRESS).poll_arrow(0)", "poll_arrow", "numpy", "columns"),
    (AIO_POLL, "poll_arrow", "numpy", "columns"),
    (SEND, "send_arrow", "numpy", "columns"),
    (AIO_SEND, "send_arrow", "numpy", "columns"),
]


def run_without(libraries: Iterable[str], entries: Sequence[str | list[str]], address: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.cli.bare_install", address, *libraries]
    done = subprocess.run(command, input=json.dumps(entries), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    broker = BrokerProcess(tmp_path_factory.mktemp("broker") / "data").start()
    try:
        yield run_without(EXTRA_OF, [each[0] for each in (*COMMANDS, *PYTHON)], broker.address)
    finally:
        broker.close()


def words(what: str, library: str, extras: str) -> str:
    listed = f"extra {extras}" if " and " not in extras else f"extras {extras}"
    brackets = extras.replace(" and ", ",")
    return f"{what} needs {library}: install Ottla with its {listed} (in a clone: pip install '.[{brackets}]')"


@pytest.mark.parametrize("index", range(len(COMMANDS)), ids=lambda index: " ".join(COMMANDS[index][0][:2]))
def test_a_command_names_the_extra_in_one_line(outcomes: list[dict[str, Any]], index: int) -> None:
    _, what, library, extras = COMMANDS[index]
    assert outcomes[index] == {"code": 1, "said": f"Error: {words(what, library, extras)}\n"}


@pytest.mark.parametrize("index", range(len(PYTHON)), ids=lambda index: PYTHON[index][1])
def test_a_call_raises_an_error_that_names_the_extra(outcomes: list[dict[str, Any]], index: int) -> None:
    _, what, library, extras = PYTHON[index]
    outcome = outcomes[len(COMMANDS) + index]
    assert outcome["said"] == words(what, library, extras), outcome
    assert outcome["raised"] == "ExtraMissing"


def test_a_store_in_cassandra_names_the_extra_that_the_others_do_not_bring() -> None:
    arguments = ["pipeline", "init-store", "--store", "cassandra", "--cassandra", f"{NOWHERE}/ottla"]
    (outcome,) = run_without(["cassandra"], [arguments], NOWHERE)
    said = words("a store in Cassandra", "cassandra", "pipeline and cassandra")
    assert outcome == {"code": 1, "said": f"Error: {said}\n"}
