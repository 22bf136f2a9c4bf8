"""Folders that are not those of our partitions: older topics' are set aside, others' are left alone; refused starts."""

import shutil
from pathlib import Path
from random import Random

import pytest

from ottla.core.disk import Disk
from ottla.core.errors import StorageError
from ottla.core.types import TopicPartition
from ottla.storage.duplicate_logs import DuplicateLog
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dirs import LogDirLocked
from ottla.storage.log_manager import LogManager
from ottla.storage.partition_metadata import write_topic_id
from ottla.storage.real_disk import RealDisk
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.log_making import NOW_MS, append, flush
from tests.storage.managed_logs import ORDERS, OURS, SMALL, TOPIC_ID, ManagedLogs

_OTHER_ID = TOPIC_ID[::-1]
_DIRECTORIES = ("/a", "/b")


def _opened(disk: Disk, directories: tuple[str, ...] = _DIRECTORIES) -> LogManager:
    manager = LogManager(disk, directories, on_dir_failed=lambda *_: None, random_bytes=Random(1).randbytes)
    manager.open(OURS, with_locks=False)
    return manager


def _load(manager: LogManager, topic_ids: dict[str, bytes] | None = None) -> list[str]:
    return manager.load(NOW_MS, config_of=lambda _: SMALL, topic_ids=topic_ids)


def _contents(disk: Disk, path: str) -> dict[str, bytes]:
    """Every file under a path."""
    found: dict[str, bytes] = {}
    for entry in disk.list(path):
        below = f"{path}/{entry.name}"
        if entry.is_dir:
            found |= {below: b"a folder"} | _contents(disk, below)
        else:
            found[below] = disk.read(below)
    return found


def _twice(*, in_a: bytes | None, in_b: bytes | None) -> SimulatedDisk:
    """orders-0 in two directories after an unclean stop, each with a record that says where; ids as given."""
    disk = SimulatedDisk()
    for directory, topic_id in (("/a", in_a), ("/b", in_b)):
        broker = ManagedLogs(disk, (directory,))
        append(broker.create(), directory.encode())
        flush(broker.log())
        broker.log().advance_log_start_offset(1)
        append(broker.log(), directory.encode())
        broker.manager.checkpoint_log_start_offsets()
        broker.manager.checkpoint_recovery_points()
        if topic_id is None:
            disk.remove(f"{directory}/orders-0/partition.metadata")
        else:
            write_topic_id(disk, f"{directory}/orders-0", topic_id)
    return disk


@pytest.mark.parametrize(("in_a", "in_b", "current"), [(_OTHER_ID, TOPIC_ID, "/b"), (None, _OTHER_ID, "/a")])
def test_folder_of_an_older_topic_in_another_directory_is_set_aside(
    in_a: bytes | None, in_b: bytes, current: str
) -> None:
    disk = _twice(in_a=in_a, in_b=in_b)
    stale = "/a" if current == "/b" else "/b"
    old = {path.rpartition("/")[2]: data for path, data in _contents(disk, f"{stale}/orders-0").items()}
    manager = _opened(disk)
    notes = _load(manager, {"orders": TOPIC_ID})
    log = manager.get(ORDERS)
    assert log is not None
    assert log.directory == f"{current}/orders-0"
    assert log.log_start_offset == 1
    (stray,) = [entry.name for entry in disk.list(stale) if entry.is_dir]
    assert stray.startswith("orders-0.")
    assert stray.endswith("-stray")
    assert {path.rpartition("/")[2]: data for path, data in _contents(disk, f"{stale}/{stray}").items()} == old
    assert any(stray in note for note in notes)
    manager.sync_dirs(lambda: None)
    assert b"orders" not in disk.read(f"{stale}/log-start-offset-checkpoint")
    manager.shutdown(NOW_MS)
    again = _opened(disk)
    assert any(stray in note for note in _load(again, {"orders": TOPIC_ID}))
    assert disk.exists(f"{stale}/{stray}")


def test_folders_of_a_topic_that_is_gone_are_no_reason_to_refuse_the_start() -> None:
    disk = _twice(in_a=_OTHER_ID, in_b=TOPIC_ID)
    manager = _opened(disk)
    _load(manager, {})
    assert manager.get(ORDERS) is None
    for directory in _DIRECTORIES:
        assert [entry.name[-6:] for entry in disk.list(directory) if entry.is_dir] == ["-stray"]


@pytest.mark.parametrize(
    ("in_a", "in_b", "topic_ids"),
    [
        (TOPIC_ID, TOPIC_ID, {"orders": TOPIC_ID}),
        (TOPIC_ID, None, {"orders": TOPIC_ID}),
        (_OTHER_ID, TOPIC_ID, None),
    ],
)
def test_start_is_refused_where_ids_can_not_tell_and_nothing_is_written(
    in_a: bytes | None, in_b: bytes | None, topic_ids: dict[str, bytes] | None
) -> None:
    disk = _twice(in_a=in_a, in_b=in_b)
    disk.write_atomically("/b/.kafka_cleanshutdown", b"{}")
    manager = _opened(disk)
    before = _contents(disk, "")
    with pytest.raises(
        DuplicateLog, match=r"orders-0 is in /a/orders-0 \(.*\) and in /b/orders-0 \(.*topic id.*\); move"
    ):
        _load(manager, topic_ids)
    manager.shutdown(NOW_MS)
    assert _contents(disk, "") == before


def test_start_that_fails_within_the_loading_marks_nothing_clean() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    append(broker.create(), b"0", b"1")
    flush(broker.log())
    broker.log().advance_log_start_offset(1)
    broker.manager.checkpoint_log_start_offsets()
    manager = _opened(disk, ("/a",))
    before = _contents(disk, "")

    def config_of(_: str) -> LogConfig:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        manager.load(NOW_MS, config_of=config_of)
    manager.shutdown(NOW_MS)
    assert _contents(disk, "") == before


def test_start_that_is_refused_releases_its_locks(tmp_path: Path) -> None:
    directories = (f"{tmp_path}/one", f"{tmp_path}/two")
    other = ManagedLogs(RealDisk(), directories[1:], with_locks=True)
    refused = LogManager(RealDisk(), directories, on_dir_failed=lambda *_: None, random_bytes=Random(1).randbytes)
    with pytest.raises(LogDirLocked):
        refused.open(OURS)
    refused.shutdown(NOW_MS)
    other.manager.shutdown(NOW_MS)
    ManagedLogs(RealDisk(), directories, with_locks=True).manager.shutdown(NOW_MS)


# Named like a partition


def test_folder_without_any_file_of_kafkas_is_left_alone_and_named() -> None:
    disk = SimulatedDisk()
    ManagedLogs(disk).manager.shutdown(NOW_MS)
    for path in ("/a/run-2026-150114/broker/orders-0", "/a/empty-0"):
        disk.make_dirs(path)
    for name in ("results.json", "notes.tmp", "page.deleted", "12.log"):
        disk.write_atomically(f"/a/run-2026-150114/{name}", b"mine")
    before = _contents(disk, "/a/run-2026-150114")
    broker = ManagedLogs(disk)
    assert broker.manager.partitions() == []
    assert sorted(note.split(":")[0] for note in broker.notes) == ["/a/empty-0", "/a/run-2026-150114"]
    broker.manager.shutdown(NOW_MS)
    assert _contents(disk, "/a/run-2026-150114") == before
    assert disk.list("/a/empty-0") == []


def test_new_log_goes_around_a_foreign_folder_of_its_name() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/a/orders-0")
    disk.write_atomically("/a/orders-0/letter.txt", b"mine")
    broker = ManagedLogs(disk, _DIRECTORIES)
    assert broker.create().directory == "/b/orders-0"
    assert _contents(disk, "/a/orders-0") == {"/a/orders-0/letter.txt": b"mine"}
    assert not broker.failed


def test_new_log_whose_only_place_is_taken_is_refused_and_the_directory_stays_online() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/a/orders-0")
    disk.write_atomically("/a/orders-0/letter.txt", b"mine")
    broker = ManagedLogs(disk)
    with pytest.raises(StorageError, match=r"/a/orders-0: in the way"):
        broker.create()
    assert broker.manager.online_directories == ["/a"]
    assert broker.create(TopicPartition("orders", 1)).directory == "/a/orders-1"


def test_new_log_goes_around_a_file_of_its_name() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/a")
    disk.write_atomically("/a/orders-0", b"mine")
    broker = ManagedLogs(disk, _DIRECTORIES)
    assert broker.notes == ["/a/orders-0: not the folder of a partition, left alone"]
    assert broker.create().directory == "/b/orders-0"
    assert disk.read("/a/orders-0") == b"mine"
    assert not broker.failed


def test_file_in_the_way_of_a_partition_costs_that_partition_only() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/a")
    disk.write_atomically("/a/orders-0", b"mine")
    broker = ManagedLogs(disk)
    with pytest.raises(StorageError, match=r"/a/orders-0: in the way"):
        broker.create()
    assert broker.manager.online_directories == ["/a"]
    assert broker.create(TopicPartition("orders", 1)).directory == "/a/orders-1"


def test_link_to_nowhere_in_the_way_of_a_partition_costs_that_partition_only(tmp_path: Path) -> None:
    (tmp_path / "orders-0").symlink_to(tmp_path / "not-mounted")
    broker = ManagedLogs(RealDisk(), (str(tmp_path),))
    with pytest.raises(StorageError, match=r"orders-0: in the way"):
        broker.create()
    assert broker.manager.online_directories == [str(tmp_path)]
    broker.manager.shutdown(NOW_MS)


def test_log_directory_that_became_a_file_fails(tmp_path: Path) -> None:
    directory = tmp_path / "a"
    broker = ManagedLogs(RealDisk(), (str(directory),))
    shutil.rmtree(directory)
    directory.write_bytes(b"mine")
    with pytest.raises(StorageError, match="no log directory is online"):
        broker.create()
    assert broker.failed == [(str(directory), [])]


def test_empty_folder_is_used_for_the_partition_of_its_name() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/a/orders-0")
    broker = ManagedLogs(disk)
    append(broker.create(), b"x")
    assert broker.values() == [b"x"]
