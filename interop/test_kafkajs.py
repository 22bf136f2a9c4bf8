"""kafkajs (its own protocol code, in JavaScript) against our broker: producing, groups, its admin client."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interop.broker_process import BrokerProcess

KAFKAJS_VERSION = "2.2.4"
_FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def kafkajs_dir() -> Path:
    """The folder whose node_modules holds kafkajs; fetched by npm once."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node or npm (Debian: nodejs npm)")
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_home / "ottla" / f"kafkajs-{KAFKAJS_VERSION}"
    if not (folder / "node_modules" / "kafkajs" / "package.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        install = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", f"kafkajs@{KAFKAJS_VERSION}"]
        fetched = subprocess.run(install, capture_output=True, text=True, timeout=300, check=False)
        if fetched.returncode != 0:
            pytest.skip(f"npm could not fetch kafkajs: {fetched.stderr[-500:]}")
    return folder


def run_script(script: str, kafkajs_dir: Path, *arguments: str) -> dict[str, Any]:
    finished = subprocess.run(
        ["node", str(_FOLDER / script), *arguments],
        env={**os.environ, "NODE_PATH": str(kafkajs_dir / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    seen: dict[str, Any] = json.loads(finished.stdout)
    return seen


@pytest.mark.smoke
def test_kafkajs_creates_a_topic_produces_and_reads_offsets(broker: BrokerProcess, kafkajs_dir: Path) -> None:
    seen = run_script("kafkajs_round_trip.js", kafkajs_dir, broker.bootstrap, "kafkajs-topic")
    assert seen["created"] is True
    assert seen["partitions"] == 2
    assert sorted((each["partition"], each["low"], each["high"]) for each in seen["offsets"]) == [
        (0, "0", "150"),
        (1, "0", "150"),
    ]
    for batch_number, acknowledged in enumerate(seen["acknowledged"]):
        base_offsets = {each["partition"]: (each["errorCode"], each["baseOffset"]) for each in acknowledged}
        assert base_offsets == {0: (0, str(50 * batch_number)), 1: (0, str(50 * batch_number))}


def test_kafkajs_group_rebalances_and_its_admin_client_administers(broker: BrokerProcess, kafkajs_dir: Path) -> None:
    seen = run_script("kafkajs_groups.js", kafkajs_dir, broker.bootstrap, "kafkajs-group-topic", "kafkajs-group")
    shared = seen["shared"]
    assert sorted(shared["stays"] + shared["leaves"]) == [0, 1, 2, 3]
    assert shared["read"] == [50, 50]
    assert (seen["state"], seen["members"], seen["protocol"]) == ("Stable", 2, "RoundRobinAssigner")
    assert seen["unique"] == 200
    assert seen["committed"] == ["50", "50", "50", "50"]
    assert seen["set"] == ["50", "7", "50", "50"]
    assert seen["reset"] == ["0", "0", "0", "0"]
    assert seen["retention"] == ["60000", "90000"]
    assert (seen["wasListed"], seen["isGroupThere"]) == (True, False)
    assert seen["lows"] == ["10", "0", "0", "0"]
    assert (seen["isTopicThere"], seen["brokers"]) == (False, 1)
