"""A broker core on simulated ports: its start, its stop, and that it does the same again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.states import BrokerState
from ottla.storage.log_dirs import CLEAN_SHUTDOWN_FILE
from ottla.storage.meta_properties import ForeignLogDir
from ottla.testing.simulated_disk import SimulatedDisk
from tests.broker.conftest import MakeRig
from tests.broker.rig import Rig, at, bytes_of
from tests.storage.log_making import batch, read_all, values_of

MARKER = f"/data/{CLEAN_SHUTDOWN_FILE}"


def test_core_serves_when_its_start_is_over_and_not_after_its_stop(rig: Rig) -> None:
    assert rig.core.state is BrokerState.RUNNING_AS_CONTROLLER
    assert rig.core.is_accepting
    assert rig.network.is_accepting
    assert not rig.disk.exists(MARKER)
    rig.run(rig.core.stop())
    assert rig.core.state is BrokerState.NOT_RUNNING
    assert not rig.core.is_accepting
    assert not rig.network.is_accepting
    assert rig.disk.exists(MARKER)
    assert len(rig.wheel) == 0


def test_first_start_speaks_of_no_loss(make_rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    make_rig()
    assert caplog.text == ""


def test_next_life_on_the_same_store_and_disk_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    first = Rig(tmp_path, disk=disk)
    first.create_topic("orders", 3)
    assert first.produce(batch(b"a"), index=2) == (0, 0)
    first.run(first.core.stop())
    again = Rig(tmp_path, disk=disk)
    assert len(again.cache.topics["orders"].partitions) == 3
    assert again.produce(batch(b"b"), index=2) == (0, 1)
    assert values_of(read_all(again.partition("orders", 2).log)) == [b"a", b"b"]
    again.close()


def test_start_that_is_refused_is_undone_and_leaves_the_directories_as_they_were(make_rig: MakeRig) -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/data")
    disk.write_atomically("/data/meta.properties", b"version=0\nbroker.id=1\ncluster.id=another\n")
    with pytest.raises(ForeignLogDir):
        make_rig(disk=disk)
    assert not disk.exists(MARKER)


def test_stop_answers_who_waits_and_makes_durable_what_was_not(rig: Rig) -> None:
    rig.create_topic("fast")
    rig.create_topic("safe", flush_messages="1")
    fetch = rig.send_fetch(at(0, "fast"), max_wait_ms=60_000)
    rig.send_produce(("safe", 0, batch(b"a")))
    rig.run(rig.core.stop())
    assert bytes_of(fetch)
    lost = rig.disk.crash()
    assert b"a" in lost.read(f"/data/safe-0/{0:020d}.log")
    assert lost.exists(MARKER)


def test_core_whose_last_directory_fails_says_so(rig: Rig) -> None:
    assert not rig.has_failed
    assert rig.core.fatal_reason is None
    rig.log_manager.fail_dir("/data", "broken")
    assert rig.has_failed
    assert rig.core.fatal_reason == "no log directory is left"


@pytest.mark.process
def test_same_requests_leave_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    digests = []
    for seed in ("1", "2", "3"):
        folder = tmp_path / seed
        folder.mkdir()
        found = subprocess.run(
            [sys.executable, "-m", "tests.broker.core_digest", str(folder)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parent.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(found.stdout)
    assert "operations" in digests[0]
    assert digests == digests[:1] * 3
