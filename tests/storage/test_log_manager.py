"""All logs of a broker: start, stop, crash, deletion, failing directories."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from ottla.core.disk import Disk
from ottla.core.errors import StorageError
from ottla.core.types import TopicPartition
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dirs import LogDirLocked
from ottla.storage.log_manager import LogManager
from ottla.storage.meta_properties import ForeignLogDir
from ottla.storage.real_disk import RealDisk
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.hand_driven import HandBackground
from tests.storage.log_making import NOW_MS, append, batch, flush, read_all, values_of
from tests.storage.managed_logs import ORDERS, OURS, SMALL, TOPIC_ID, ManagedLogs, produce

_PAYMENTS = TopicPartition("payments", 3)


def _names(disk: Disk, path: str) -> list[str]:
    return sorted(entry.name for entry in disk.list(path))


def test_clean_stop_is_found_again_without_recovery() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    broker.create()
    for number in range(10):
        append(broker.log(), b"%d" % number)
    broker.manager.shutdown(NOW_MS)
    assert disk.exists("/a/.kafka_cleanshutdown")
    after = disk.crash()
    again = ManagedLogs(after)
    assert not after.exists("/a/.kafka_cleanshutdown")
    assert again.values() == [b"%d" % number for number in range(10)]
    assert again.log().recovery.segments_checked == 0
    assert again.log().recovery_point == 10
    assert again.manager.topic_id_of(ORDERS) == TOPIC_ID
    assert not again.failed
    assert not again.notes


def test_crash_is_recovered_from_the_checkpointed_recovery_point() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    broker.create()
    for number in range(6):
        append(broker.log(), b"%d" % number)
    flush(broker.log())
    broker.manager.checkpoint_recovery_points()
    segment_count = broker.log().segment_count
    again = ManagedLogs(disk.crash())
    assert again.values()[:6] == [b"%d" % number for number in range(6)]
    assert 0 < again.log().recovery.segments_checked < segment_count


@pytest.mark.parametrize("data", [b"", b"0\n1\norders 0 9", b"garbage"])
def test_malformed_recovery_point_means_everything_is_checked(data: bytes) -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    broker.create()
    for number in range(6):
        append(broker.log(), b"%d" % number)
    flush(broker.log())
    broker.manager.checkpoint_recovery_points()
    segment_count = broker.log().segment_count
    disk.write_atomically("/a/recovery-point-offset-checkpoint", data)
    again = ManagedLogs(disk)
    assert again.log().recovery.segments_checked == segment_count
    assert len(again.values()) == 6
    assert "recovery-point-offset-checkpoint" in again.notes[0]


def test_log_start_offset_is_kept_and_a_malformed_one_hides_nothing() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    broker.create()
    append(broker.log(), b"0", b"1", b"2")
    broker.log().advance_log_start_offset(2)
    broker.manager.shutdown(NOW_MS)
    again = ManagedLogs(disk.crash())
    assert again.log().log_start_offset == 2
    again.manager.shutdown(NOW_MS)
    disk = again.manager._disk
    disk.write_atomically("/a/log-start-offset-checkpoint", b"0\n1\norders")
    third = ManagedLogs(disk)
    assert third.log().log_start_offset == 0
    assert len(third.notes) == 1


def test_high_watermarks_come_back_and_malformed_ones_are_told() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk, ("/a", "/b"))
    broker.create(ORDERS)
    broker.create(_PAYMENTS)
    broker.manager.checkpoint_high_watermarks({ORDERS: 5, _PAYMENTS: 7})
    assert broker.manager.read_high_watermarks() == ({ORDERS: 5, _PAYMENTS: 7}, [])
    disk.write_atomically("/b/replication-offset-checkpoint", b"0\n9\n")
    high_watermarks, notes = broker.manager.read_high_watermarks()
    assert high_watermarks == {ORDERS: 5}
    assert len(notes) == 1


def test_new_logs_go_where_the_fewest_are() -> None:
    broker = ManagedLogs(SimulatedDisk(), ("/a", "/b"))
    logs = [broker.create(TopicPartition("t", number)) for number in range(6)]
    directories = [log.directory.rpartition("/")[0] for log in logs]
    assert directories.count("/a") == directories.count("/b") == 3


def test_folders_that_wait_for_their_removal_are_named_by_the_given_randomness_and_go_in_their_order() -> None:
    disk = SimulatedDisk()
    numbers = iter((2, 1, 3))
    manager = LogManager(
        disk, ["/a"], on_dir_failed=lambda *_: None, random_bytes=lambda length: bytes([next(numbers)]) * length
    )
    manager.open(OURS, with_locks=False)
    manager.load(NOW_MS, config_of=lambda _: SMALL)
    partitions = [TopicPartition("t", number) for number in range(3)]
    for topic_partition in partitions:
        manager.create_log(topic_partition, TOPIC_ID, SMALL, NOW_MS)
    manager.delete_logs(reversed(partitions), NOW_MS)
    expected = [f"t-{number}.{unique * 16}-delete" for number, unique in enumerate(("03", "01", "02"))]
    assert sorted(entry.name for entry in disk.list("/a") if entry.is_dir) == expected
    background = HandBackground()
    manager._logs.use_background(background)
    manager.remove_due(NOW_MS + SMALL.file_delete_delay_ms)
    left = []
    while background.waiting:
        background.run_one()
        left.append(sorted(entry.name for entry in disk.list("/a") if entry.is_dir))
    assert left == [expected[:2], expected[:1], []]


def test_created_log_survives_power_loss() -> None:
    for seed in range(20):
        disk = SimulatedDisk(seed)
        broker = ManagedLogs(disk, ("/x/y/a",))
        broker.create()
        append(broker.log(), b"kept")
        flush(broker.log())
        again = ManagedLogs(disk.crash(), ("/x/y/a",))
        assert again.values() == [b"kept"]
        topic_id = again.manager.topic_id_of(ORDERS)
        assert topic_id in (None, TOPIC_ID)
        if topic_id is None:
            again.manager.assign_topic_id(ORDERS, TOPIC_ID)
            assert again.manager.topic_id_of(ORDERS) == TOPIC_ID


def test_deleted_log_is_gone_at_once_and_its_files_after_the_delay() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    append(broker.create(), b"old")
    broker.manager.delete_logs([ORDERS], NOW_MS)
    assert broker.manager.get(ORDERS) is None
    doomed = [name for name in _names(disk, "/a") if name.endswith("-delete")]
    assert len(doomed) == 1
    assert doomed[0].startswith("orders-0.")
    broker.create()
    assert broker.values() == []
    append(broker.log(), b"new")
    broker.manager.remove_due(NOW_MS + 999)
    assert disk.exists(f"/a/{doomed[0]}")
    broker.manager.remove_due(NOW_MS + 1000)
    assert not disk.exists(f"/a/{doomed[0]}")
    assert broker.values() == [b"new"]


def test_deletion_that_was_begun_is_finished_by_the_next_start() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    append(broker.create(), b"old")
    broker.manager.delete_logs([ORDERS], NOW_MS)
    broker.manager.sync_dirs(lambda: None)
    disk = disk.crash()
    again = ManagedLogs(disk)
    assert again.manager.partitions() == []
    assert not [name for name in _names(disk, "/a") if "orders" in name]


def test_many_logs_are_deleted_with_one_fsync() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    partitions = [TopicPartition("t", number) for number in range(10)]
    for topic_partition in partitions:
        broker.manager.create_log(topic_partition, TOPIC_ID, SMALL, NOW_MS)
    fsyncs = disk.counts["fsync_dir"]
    broker.manager.delete_logs([*partitions, ORDERS], NOW_MS)
    broker.manager.sync_dirs(lambda: None)
    assert disk.counts["fsync_dir"] == fsyncs + 1
    assert ManagedLogs(disk.crash()).manager.partitions() == []


def test_folder_of_no_partition_is_reported_and_left_alone() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/a/lost+found")
    broker = ManagedLogs(disk)
    assert broker.notes == ["/a/lost+found: not the folder of a partition, left alone"]
    assert disk.exists("/a/lost+found")


def test_retention_sweep_deletes_segments_and_later_their_files() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk, config=SMALL._replace(retention_ms=5000))
    broker.create()
    for number in range(6):
        append(broker.log(), b"%d" % number)
    broker.manager.delete_expired(NOW_MS + 5000)
    assert broker.log().log_start_offset == 0
    broker.manager.delete_expired(NOW_MS + 5001, high_watermark_of=lambda _: 4)
    assert 0 < broker.log().log_start_offset <= 4
    deleted = [name for name in _names(disk, "/a/orders-0") if name.endswith(".deleted")]
    assert deleted
    broker.manager.remove_due(NOW_MS + 6001)
    assert not [name for name in _names(disk, "/a/orders-0") if name.endswith(".deleted")]


def test_silent_producers_are_forgotten() -> None:
    broker = ManagedLogs(SimulatedDisk())
    log = broker.create()
    log.append_as_leader(batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0), leader_epoch=0, now_ms=NOW_MS)
    assert len(log.producer_state) == 1
    broker.manager.set_producer_expiration_ms(1000)
    broker.manager.expire_producers(NOW_MS + 1000)
    assert len(log.producer_state) == 0


def test_config_change_reaches_the_topics_logs_only() -> None:
    broker = ManagedLogs(SimulatedDisk())
    broker.create(ORDERS)
    broker.create(_PAYMENTS)
    broker.manager.update_config("orders", LogConfig(retention_ms=1))
    assert broker.log(ORDERS).config.retention_ms == 1
    assert broker.log(_PAYMENTS).config == SMALL


def test_truncation_lowers_the_recovery_point_on_disk() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    log = broker.create()
    for number in range(6):
        append(log, b"%d" % number)
    flush(log)
    broker.manager.checkpoint_recovery_points()
    broker.manager.truncate_log(log, 2, NOW_MS)
    assert disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\norders 0 2\n"
    assert broker.values() == [b"0", b"1"]


# Failing directories


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_failing_directory_goes_offline_and_the_other_goes_on(code: int) -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk, ("/a", "/b"))
    broken, sound = broker.create(ORDERS), broker.create(_PAYMENTS)
    disk.fail_next("*", code, path_prefix="/a/", times=1000)
    with pytest.raises(StorageError) as caught:
        append(broken, b"x")
    broker.manager.fail_log(broken, caught.value)
    assert broker.failed == [("/a", [ORDERS])]
    assert broker.manager.get(ORDERS) is None
    assert broker.manager.is_offline(ORDERS)
    assert list(broker.manager.offline_directories) == ["/a"]
    append(sound, b"y")
    assert broker.create(TopicPartition("new", 0)).directory == "/b/new-0"
    broker.manager.fail_log(broken, caught.value)
    assert len(broker.failed) == 1
    broker.manager.shutdown(NOW_MS)
    disk.heal()
    assert not disk.exists("/a/.kafka_cleanshutdown")
    assert disk.exists("/b/.kafka_cleanshutdown")


def test_no_directory_left_is_a_storage_error() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    disk.fail_next("*", errno.EIO, path_prefix="/a", times=1000)
    with pytest.raises(StorageError, match="no log directory is online"):
        broker.create()
    assert broker.failed == [("/a", [])]


def test_directory_that_fails_at_start_does_not_stop_the_others() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk, ("/a", "/b"))
    broker.create(ORDERS)
    broker.create(_PAYMENTS)
    broker.manager.shutdown(NOW_MS)
    disk.fail_next("list", errno.EIO, path_prefix="/a/orders-0")
    again = ManagedLogs(disk, ("/a", "/b"))
    assert again.failed == [("/a", [ORDERS])]
    assert again.manager.is_offline(ORDERS)
    assert again.manager.get(_PAYMENTS) is not None


def test_failing_close_leaves_no_marker() -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    append(broker.create(), b"x")
    disk.fail_next("fsync", errno.EIO, path_prefix="/a/orders-0/")
    broker.manager.shutdown(NOW_MS)
    assert broker.failed == [("/a", [ORDERS])]
    assert not disk.exists("/a/.kafka_cleanshutdown")


def test_failure_of_a_deleted_log_does_not_take_its_directory_down() -> None:
    broker = ManagedLogs(SimulatedDisk())
    log = broker.create()
    broker.manager.delete_logs([ORDERS], NOW_MS)
    broker.manager.fail_log(log, StorageError("its files are gone"))
    assert not broker.failed


def test_checkpoints_in_the_background_are_one_at_a_time_and_the_last_wins() -> None:
    disk = SimulatedDisk()
    background = HandBackground()
    broker = ManagedLogs(disk, background=background)
    log = broker.create()
    broker.manager.checkpoint_recovery_points()
    background.run_one()  # the new topic id
    append(log, b"x")
    flush(log)
    broker.manager.checkpoint_recovery_points()
    broker.manager.checkpoint_recovery_points()
    assert background.run_all() == 2
    assert disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\norders 0 1\n"


def test_high_watermarks_asked_for_during_a_write_are_the_newest() -> None:
    disk = SimulatedDisk()
    background = HandBackground()
    broker = ManagedLogs(disk, background=background)
    broker.create()
    for offset in (1, 2, 3):
        broker.manager.checkpoint_high_watermarks({ORDERS: offset})
    assert background.run_all() == 2
    assert broker.manager.read_high_watermarks() == ({ORDERS: 3}, [])


def test_failing_background_write_takes_the_directory_offline() -> None:
    disk = SimulatedDisk()
    background = HandBackground()
    broker = ManagedLogs(disk, background=background)
    broker.create()
    broker.manager.checkpoint_recovery_points()
    disk.fail_next("rename", errno.EIO)
    background.run_all()
    assert broker.failed == [("/a", [ORDERS])]


# Whose directory it is


def test_directory_of_another_cluster_ends_the_start() -> None:
    disk = SimulatedDisk()
    disk.make_dirs("/a")
    disk.write_atomically("/a/meta.properties", b"version=0\nbroker.id=1\ncluster.id=other\n")
    with pytest.raises(ForeignLogDir):
        ManagedLogs(disk)


def test_real_directory_is_locked_until_shutdown_and_loaded_by_threads(tmp_path: Path) -> None:
    directories = (f"{tmp_path}/one", f"{tmp_path}/two")
    broker = ManagedLogs(RealDisk(), directories, with_locks=True)
    for number in range(20):
        append(broker.create(TopicPartition("t", number)), b"%d" % number)
    with pytest.raises(LogDirLocked):
        ManagedLogs(RealDisk(), directories, with_locks=True)
    with ThreadPoolExecutor(4) as pool:
        broker.manager.shutdown(NOW_MS, run_all=pool.map)
        manager = LogManager(RealDisk(), directories, on_dir_failed=lambda *_: None, random_bytes=Random(1).randbytes)
        manager.open(OURS)
        for directory in directories:
            Path(directory, ".kafka_cleanshutdown").unlink()
        seen: list[tuple[int, int]] = []
        manager.load(
            NOW_MS,
            config_of=lambda _: SMALL,
            run_all=pool.map,
            on_progress=lambda done, total: seen.append((done, total)),
        )
    assert len(seen) == 20
    for number in range(20):
        log = manager.get(TopicPartition("t", number))
        assert log is not None
        assert log.recovery.segments_checked == 1
        assert values_of(read_all(log)) == [b"%d" % number]


# Producers over restarts


@pytest.mark.parametrize("stop", ["clean", "crash", "corrupt snapshot"])
def test_retry_of_an_acked_batch_after_restart_is_a_duplicate(stop: str) -> None:
    disk = SimulatedDisk()
    broker = ManagedLogs(disk)
    log = broker.create()
    for sequence in range(8):
        assert produce(log, sequence) == (sequence, False)
    if stop == "crash":
        flush(log)
    else:
        broker.manager.shutdown(NOW_MS)
    if stop == "crash":
        disk = disk.crash()
    if stop == "corrupt snapshot":
        for name in _names(disk, "/a/orders-0"):
            if name.endswith(".snapshot"):
                disk.corrupt(f"/a/orders-0/{name}", 30)
    again = ManagedLogs(disk)
    assert produce(again.log(), 7) == (7, True)
    assert produce(again.log(), 8) == (8, False)


class _CaseIgnoringDisk(SimulatedDisk):
    def exists(self, path: str) -> bool:
        """As macOS's file system answers."""
        return super().exists(path.lower())


@pytest.mark.parametrize(("disk", "expected"), [(SimulatedDisk(), False), (_CaseIgnoringDisk(), True)])
def test_file_system_that_ignores_case_is_known_by_its_own_files(disk: SimulatedDisk, *, expected: bool) -> None:
    broker = ManagedLogs(disk, ("/a", "/b"))
    assert broker.manager.ignores_case() is expected
    assert not broker.failed
