"""A topic that is deleted and made anew inherits no offset: its records survive every crash."""

from collections.abc import Iterator
from errno import EIO

import pytest

from ottla.core.types import TopicPartition
from ottla.storage.checkpoints import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE, read_offsets
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.hand_driven import HandBackground
from tests.storage.log_making import NOW_MS, append, flush
from tests.storage.managed_logs import ORDERS, TOPIC_ID, ManagedLogs

_FILES = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE)
_CONFIG = LogConfig(segment_bytes=200, file_delete_delay_ms=1000)
_NEW = [b"new-%d" % number for number in range(3)]


def _with_old_topic(disk: SimulatedDisk, background: HandBackground | None = None) -> ManagedLogs:
    """A log of nine records that starts at the eighth, as all three checkpoints know."""
    broker = ManagedLogs(disk, config=_CONFIG, background=background)
    log = broker.create()
    for number in range(9):
        append(log, b"%d" % number)
    flush(log)
    log.advance_log_start_offset(7)
    _checkpoint_all(broker)
    if background is not None:
        background.run_all()
    return broker


def _checkpoint_all(broker: ManagedLogs) -> None:
    broker.manager.checkpoint_recovery_points()
    broker.manager.checkpoint_log_start_offsets()
    broker.manager.checkpoint_high_watermarks({ORDERS: broker.log().log_end_offset})


def _named(disk: SimulatedDisk) -> list[str]:
    """The checkpoints that name the partition."""
    return [name for name in _FILES if ORDERS in read_offsets(disk, f"/a/{name}")]


class _Remaking:
    """A deletion, a new topic of the name and its first records; knows how far it came."""

    def __init__(self) -> None:
        self.is_deleted = False
        self.is_acknowledged = False

    def run(self, broker: ManagedLogs) -> None:
        manager = broker.manager
        if not self.is_deleted:  # else only the new topic has to be made good
            manager.delete_logs([ORDERS], NOW_MS)
            manager.sync_dirs(self._on_deleted)
        log = manager.get(ORDERS) or broker.create()
        for value in _NEW[log.log_end_offset :]:
            append(log, value)
        flush(log)
        self.is_acknowledged = True

    def _on_deleted(self) -> None:
        self.is_deleted = True


def _crash_points() -> Iterator[int]:
    disk = SimulatedDisk()
    broker = _with_old_topic(disk)
    before = disk.operations
    _Remaking().run(broker)
    yield from range(disk.operations - before + 1)


@pytest.mark.parametrize("seed", range(6))
def test_records_of_a_topic_made_anew_survive_a_crash_at_any_operation(seed: int) -> None:
    for crash_after in _crash_points():
        disk = SimulatedDisk(seed)
        broker = _with_old_topic(disk)
        remaking = _Remaking()
        disk.crash_after(crash_after)
        try:
            remaking.run(broker)
        except SimulatedCrash:
            assert not remaking.is_acknowledged
        again = ManagedLogs(disk.crash(), config=_CONFIG)
        if not remaking.is_acknowledged:
            remaking.run(again)  # the next start finishes what the store says
            again = ManagedLogs(again.manager._disk.crash(), config=_CONFIG)
        assert again.log().log_start_offset == 0, crash_after
        assert again.values() == _NEW, crash_after


def test_deletion_is_over_only_when_no_checkpoint_names_the_partition() -> None:
    disk = SimulatedDisk()
    background = HandBackground()
    broker = _with_old_topic(disk, background)
    assert _named(disk) == list(_FILES)
    done: list[list[str]] = []
    broker.manager.delete_logs([ORDERS], NOW_MS)
    broker.manager.sync_dirs(lambda: done.append(_named(disk)))
    while background.waiting:
        assert not done
        background.run_one()
    assert done == [[]]


def test_checkpoint_that_was_being_written_before_a_deletion_is_followed_by_another() -> None:
    disk = SimulatedDisk()
    background = HandBackground()
    broker = ManagedLogs(disk, config=_CONFIG, background=background)
    log = broker.create()
    append(log, b"0", b"1")
    log.advance_log_start_offset(1)
    _checkpoint_all(broker)  # on their way to a thread, and name the partition
    done: list[list[str]] = []
    broker.manager.delete_logs([ORDERS], NOW_MS)
    broker.manager.sync_dirs(lambda: done.append(_named(disk)))
    while background.waiting or background.started:
        # Every thread is done with its work before the loop hears of the first one.
        while background.waiting:
            background.work_only()
        while background.started:
            background.report()
    assert done == [[]]


@pytest.mark.parametrize("name", _FILES)
def test_directory_that_fails_over_a_checkpoint_holds_up_nobody(name: str) -> None:
    disk = SimulatedDisk()
    background = HandBackground()
    broker = ManagedLogs(disk, ("/a", "/b"), config=_CONFIG, background=background)
    done: list[str] = []
    broker.manager.create_log(ORDERS, TOPIC_ID, _CONFIG, NOW_MS)
    disk.fail_next("*", EIO, path_prefix=f"/a/{name}")
    broker.manager.sync_dirs(lambda: done.append("first"))
    background.run_all()
    assert broker.failed == [("/a", [ORDERS])]
    assert done == ["first"]
    broker.manager.create_log(TopicPartition("parcels", 0), TOPIC_ID, _CONFIG, NOW_MS)
    broker.manager.sync_dirs(lambda: done.append("second"))
    background.run_all()
    assert done == ["first", "second"]


def test_deletion_of_what_no_checkpoint_names_writes_none() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk, config=_CONFIG)
    broker.create()
    before = disk.counts.get("write_atomically", 0)
    broker.manager.delete_logs([ORDERS], NOW_MS)
    broker.manager.sync_dirs(lambda: None)
    assert disk.counts.get("write_atomically", 0) == before


def test_folder_that_was_removed_by_hand_leaves_no_offset_to_the_log_in_its_place() -> None:
    disk = SimulatedDisk()
    broker = _with_old_topic(disk)
    broker.manager.shutdown(NOW_MS)
    disk.remove_tree("/a/orders-0")
    again = ManagedLogs(disk, config=_CONFIG)
    log = again.create()
    for value in _NEW:
        append(log, value)
    flush(log)
    third = ManagedLogs(disk.crash(), config=_CONFIG)
    assert third.log().log_start_offset == 0
    assert third.values() == _NEW


def test_high_watermark_of_another_directory_is_not_taken_for_the_partition() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk, ("/a", "/b"), config=_CONFIG)
    broker.create()
    disk.write_atomically(f"/b/{HIGH_WATERMARK_FILE}", b"0\n1\norders 0 77\n")
    assert broker.manager.read_high_watermarks() == ({}, [])


def test_recovery_that_drops_segments_says_which_and_why() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk, config=_CONFIG)
    log = broker.create()
    for number in range(9):
        append(log, b"%d" % number)
    flush(log)
    second_segment = sorted(entry.name for entry in disk.list("/a/orders-0") if entry.name.endswith(".log"))[1]
    base_offset = int(second_segment.split(".")[0])
    disk.corrupt(f"/a/orders-0/{second_segment}", 30)
    again = ManagedLogs(disk, config=_CONFIG)
    end_offset = again.log().log_end_offset
    assert end_offset == base_offset
    (note,) = again.notes
    assert note.startswith(f"orders-0: cut at offset {end_offset}, ")
    assert f"segments from {base_offset + 2} on" in note
    assert second_segment in note


def test_log_start_that_moves_above_the_log_is_told() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk, config=_CONFIG)
    append(broker.create(), b"0", b"1", b"2")
    broker.manager.shutdown(NOW_MS)
    disk.write_atomically(f"/a/{LOG_START_OFFSET_FILE}", b"0\n1\norders 0 900\n")
    again = ManagedLogs(disk, config=_CONFIG)
    assert again.log().log_start_offset == again.log().log_end_offset == 900
    (note,) = again.notes
    assert note.startswith("orders-0: log start moved from 0 to 900, 1 segments that end at 3 are dropped: ")


def test_topic_id_is_that_of_the_new_topic() -> None:
    disk = SimulatedDisk()
    broker = _with_old_topic(disk)
    broker.manager.delete_logs([ORDERS], NOW_MS)
    broker.manager.sync_dirs(lambda: None)
    other_id = TOPIC_ID[::-1]
    broker.manager.create_log(ORDERS, other_id, _CONFIG, NOW_MS)
    assert broker.manager.topic_id_of(ORDERS) == other_id
