"""Group commit and the promises of the flush modes."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import StorageError
from ottla.storage.flush import Flusher
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.hand_driven import HandBackground, HandLoop
from tests.storage.log_making import NOW_MS, append, open_log, read_all, values_of


class _Setting:
    """A flusher with hand-driven threads over logs on a simulated disk."""

    def __init__(self, *, seed: int = 0, concurrent_max: int = 4) -> None:
        self.disk = SimulatedDisk(seed)
        self.disk.make_dirs("/data")
        self.disk.fsync_dir("/")
        self.background = HandBackground()
        self.loop = HandLoop()
        self.flushed: list[Log] = []
        self.failed: list[tuple[Log, StorageError]] = []
        self.now_ms = NOW_MS
        self.flusher = Flusher(
            self.background,
            clock=lambda: self.now_ms,
            call_soon=self.loop.call_soon,
            on_flushed=self.flushed.append,
            on_failed=lambda log, error: self.failed.append((log, error)),
            concurrent_max=concurrent_max,
        )

    def log(self, number: int = 0, config: LogConfig | None = None) -> Log:
        log = open_log(self.disk, config or LogConfig(flush_messages=1), directory=f"/data/orders-{number}")
        self.disk.fsync_dir("/data")
        return log


@pytest.fixture
def setting() -> _Setting:
    return _Setting()


def test_appends_of_one_turn_share_one_fsync(setting: _Setting) -> None:
    log = setting.log()
    for number in range(20):
        append(log, b"%d" % number)
        setting.flusher.request(log)
    assert not setting.background.waiting
    setting.loop.turn()
    assert setting.background.run_all() == 1
    assert log.recovery_point == 20
    assert setting.flushed == [log]
    assert setting.flusher.is_idle


def test_appends_during_an_fsync_share_the_next_one(setting: _Setting) -> None:
    log = setting.log()
    append(log, b"first")
    setting.flusher.request(log)
    setting.loop.turn()
    setting.background.work_only()
    for number in range(5):
        append(log, b"%d" % number)
        setting.flusher.request(log)
    setting.loop.turn()
    assert not setting.background.waiting
    setting.background.report()
    assert log.recovery_point == 1
    assert setting.background.run_all() == 1
    assert log.recovery_point == 6
    assert len(setting.flushed) == 2


def test_fsync_covers_only_what_was_there_when_it_began(setting: _Setting) -> None:
    log = setting.log()
    append(log, b"before")
    setting.flusher.request(log)
    setting.loop.turn()
    append(log, b"after")
    setting.background.run_one()
    assert log.recovery_point == 1


def test_fsyncs_of_many_logs_are_bounded(setting: _Setting) -> None:
    logs = [setting.log(number) for number in range(10)]
    for log in logs:
        append(log, b"x")
        setting.flusher.request(log)
    setting.loop.turn()
    assert len(setting.background.waiting) == 4
    setting.background.run_one()
    assert len(setting.background.waiting) == 4
    setting.background.run_all()
    assert [log.recovery_point for log in logs] == [1] * 10
    assert setting.flusher.is_idle


def test_failed_fsync_is_reported_and_never_tried_again(setting: _Setting) -> None:
    log = setting.log()
    append(log, b"x")
    setting.disk.fail_next("fsync", errno.EIO)
    setting.flusher.request(log)
    setting.loop.turn()
    setting.background.run_all()
    assert [failed for failed, _ in setting.failed] == [log]
    assert "fsync" in str(setting.failed[0][1])
    assert log.recovery_point == 0
    setting.flusher.request(log)
    setting.loop.turn()
    assert not setting.background.waiting
    assert not setting.flushed


def test_one_log_failing_does_not_stop_the_others(setting: _Setting) -> None:
    broken, sound = setting.log(0), setting.log(1)
    setting.disk.fail_next("fsync", errno.EIO, path_prefix="/data/orders-0/")
    for log in (broken, sound):
        append(log, b"x")
        setting.flusher.request(log)
    setting.loop.turn()
    setting.background.run_all()
    assert setting.flushed == [sound]


def test_flush_ms_is_due_by_the_clock(setting: _Setting) -> None:
    log = setting.log(config=LogConfig(flush_ms=1000))
    idle = setting.log(1, LogConfig(flush_ms=1000))
    append(log, b"x")
    for now_ms, runs in ((NOW_MS + 999, 0), (NOW_MS + 1000, 1), (NOW_MS + 1001, 0)):
        setting.now_ms = now_ms
        setting.flusher.request_due([log, idle], now_ms)
        setting.loop.turn()
        assert setting.background.run_all() == runs
    assert log.recovery_point == 1


def test_rolled_segment_is_flushed_by_the_next_round(setting: _Setting) -> None:
    log = setting.log(config=LogConfig(segment_bytes=100))
    append(log, b"x")
    setting.flusher.request_due([log], NOW_MS)
    assert setting.flusher.is_idle
    append(log, b"y" * 20)
    assert log.segment_count == 2
    setting.flusher.request_due([log], NOW_MS)
    setting.loop.turn()
    setting.background.run_all()
    assert log.recovery_point == 2
    assert not log.has_unsynced_segments


def test_forgotten_log_is_not_flushed(setting: _Setting) -> None:
    log = setting.log()
    append(log, b"x")
    setting.flusher.request(log)
    setting.flusher.forget(log, lambda: None)
    setting.loop.turn()
    assert not setting.background.waiting


def test_log_is_forgotten_only_after_the_fsync_that_runs(setting: _Setting) -> None:
    log = setting.log()
    append(log, b"x")
    setting.flusher.request(log)
    setting.loop.turn()
    forgotten: list[Log] = []
    setting.flusher.forget(log, lambda: forgotten.append(log))
    setting.background.work_only()
    assert not forgotten
    setting.background.report()
    assert forgotten == [log]
    assert not setting.flushed
    assert setting.flusher.is_idle


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    flush_messages=st.integers(1, 5),
    steps=st.lists(st.sampled_from(["append", "append", "turn", "work", "report"]), max_size=60),
)
def test_power_loss_takes_less_than_flush_messages_of_what_was_promised(
    seed: int, flush_messages: int, steps: list[str]
) -> None:
    setting = _Setting(seed=seed)
    log = setting.log(config=LogConfig(flush_messages=flush_messages, segment_bytes=400))
    written: list[bytes] = []
    for step in steps:
        if step == "append":
            written.append(b"value-%d" % len(written))
            append(log, written[-1])
            if log.unflushed_messages >= log.config.flush_messages:
                setting.flusher.request(log)
        elif step == "turn":
            setting.loop.turn()
        elif step == "work" and setting.background.waiting:
            setting.background.work_only()
        elif step == "report" and setting.background.started:
            setting.background.report()
    promised = min(log.log_end_offset, log.recovery_point + flush_messages - 1)
    after = setting.disk.crash()
    recovered = open_log(after, log.config, recovery_point=0, was_clean=False) if written or steps else None
    if recovered is None:
        return
    found = values_of(read_all(recovered))
    assert found == written[: len(found)]
    assert len(found) > promised - flush_messages
    assert len(found) >= log.recovery_point
