"""A stop in the middle of flushes: the clean marker is there only if everything is durable."""

import errno

import pytest

from ottla.storage.flush import Flusher
from ottla.storage.log import Log
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.hand_driven import HandBackground, HandLoop
from tests.storage.log_making import NOW_MS, append
from tests.storage.managed_logs import ORDERS, TOPIC_ID, ManagedLogs


class _Stopping:
    """A log with a record that is being flushed when the broker stops; threads and the loop are the test's."""

    def __init__(self, seed: int = 0) -> None:
        self.disk = SimulatedDisk(seed)
        self.background = HandBackground()
        self.loop = HandLoop()
        self.broker = ManagedLogs(self.disk, background=self.background)
        self.flusher = Flusher(
            self.background,
            clock=lambda: NOW_MS,
            call_soon=self.loop.call_soon,
            on_flushed=lambda _: None,
            on_failed=self.broker.manager.fail_log,
        )
        self.log: Log = self.broker.create()
        append(self.log, b"kept", leader_epoch=5)
        self.flusher.request(self.log)
        self.loop.turn()

    def stop_and_lose_power(self) -> ManagedLogs:
        """What the threads did not begin is dropped, as when the pool is closed."""
        self.broker.manager.shutdown(NOW_MS)
        self.disk = self.disk.crash()
        return ManagedLogs(self.disk)


@pytest.mark.parametrize("seed", range(5))
def test_flush_that_never_ran_is_made_up_for_by_the_stop(seed: int) -> None:
    stopping = _Stopping(seed)
    again = stopping.stop_and_lose_power()
    assert again.log().recovery.segments_checked == 0
    assert stopping.disk.exists("/a/orders-0/leader-epoch-checkpoint")
    assert again.log().leader_epochs.entries() == [(5, 0)]
    assert again.values() == [b"kept"]


@pytest.mark.parametrize("seed", range(5))
def test_flush_that_ran_and_was_not_heard_of_counts(seed: int) -> None:
    stopping = _Stopping(seed)
    stopping.background.work_only()
    again = stopping.stop_and_lose_power()
    assert again.log().recovery.segments_checked == 0
    assert again.log().leader_epochs.entries() == [(5, 0)]
    assert again.values() == [b"kept"]


def test_flush_that_failed_and_was_not_heard_of_leaves_no_marker() -> None:
    stopping = _Stopping()
    stopping.disk.fail_next("fsync", errno.EIO, path_prefix="/a/orders-0")
    stopping.background.work_only()
    stopping.broker.manager.shutdown(NOW_MS)
    assert stopping.broker.failed == [("/a", [ORDERS])]
    assert not stopping.disk.exists("/a/.kafka_cleanshutdown")


def test_no_flush_begins_once_the_flusher_has_stopped() -> None:
    stopping = _Stopping()
    append(stopping.log, b"more", leader_epoch=6)
    stopping.flusher.request(stopping.log)
    stopping.flusher.stop()
    stopping.background.run_all()
    stopping.loop.turn()
    assert not stopping.background.waiting
    assert stopping.log.leader_epochs.is_dirty
    again = stopping.stop_and_lose_power()
    assert again.log().leader_epochs.entries() == [(5, 0), (6, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_topic_id_whose_sync_was_dropped_is_synced_by_the_stop(seed: int) -> None:
    stopping = _Stopping(seed)
    stopping.broker.manager.checkpoint_recovery_points()  # on its way to a thread
    again = stopping.stop_and_lose_power()
    assert again.manager.topic_id_of(ORDERS) == TOPIC_ID


def test_high_watermarks_whose_write_was_dropped_are_written_by_the_stop() -> None:
    stopping = _Stopping()
    stopping.broker.manager.checkpoint_high_watermarks({ORDERS: 1})
    again = stopping.stop_and_lose_power()
    assert again.manager.read_high_watermarks() == ({ORDERS: 1}, [])
