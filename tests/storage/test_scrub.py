"""The background scrub finds rot and nothing else."""

import errno

import pytest

from ottla.core.types import TopicPartition
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.scrub import Damage, Scrubber
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.hand_driven import HandBackground
from tests.storage.log_making import NOW_MS, append, open_log

_CONFIG = LogConfig(segment_bytes=300, file_delete_delay_ms=0)


class _Setting:
    def __init__(self, *, bytes_per_tick: int = 1 << 20) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_dirs("/data")
        self.background = HandBackground()
        self.logs: list[Log] = []
        self.found: list[Damage] = []
        self.scrubber = Scrubber(
            self.disk,
            self.background,
            logs=lambda: self.logs,
            on_damage=self.found.append,
            bytes_per_tick=bytes_per_tick,
        )

    def add_log(self, number: int, batches: int) -> Log:
        log = open_log(self.disk, _CONFIG, directory=f"/data/orders-{number}")
        for count in range(batches):
            append(log, b"value-%d" % count)
        self.logs.append(log)
        return log

    def segments(self, log: Log) -> list[str]:
        names = sorted(entry.name for entry in self.disk.list(log.directory) if entry.name.endswith(".log"))
        return [f"{log.directory}/{name}" for name in names]

    def round(self) -> int:
        """Tick until a round is finished; returns how many ticks that took."""
        rounds = self.scrubber.rounds_finished
        ticks = 0
        while self.scrubber.rounds_finished == rounds:
            self.scrubber.tick()
            self.background.run_all()
            ticks += 1
        return ticks


@pytest.fixture
def setting() -> _Setting:
    return _Setting()


def test_sound_logs_pass_and_every_finished_segment_is_read(setting: _Setting) -> None:
    logs = [setting.add_log(0, 12), setting.add_log(1, 1)]
    setting.round()
    assert not setting.found
    finished = sum(len(setting.disk.read(path)) for log in logs for path in setting.segments(log)[:-1])
    assert finished > 0
    assert setting.scrubber.checked_bytes == finished


def test_flipped_bit_is_reported_with_its_place_in_every_round(setting: _Setting) -> None:
    log = setting.add_log(3, 12)
    path = setting.segments(log)[1]
    batch_bytes = len(setting.disk.read(path)) // 3
    setting.disk.corrupt(path, batch_bytes + 70)
    setting.round()
    assert [(damage.topic_partition, damage.path, damage.position) for damage in setting.found] == [
        (TopicPartition("orders", 3), path, batch_bytes)
    ]
    setting.round()
    assert len(setting.found) == 2


def test_damage_in_one_segment_does_not_hide_another(setting: _Setting) -> None:
    log = setting.add_log(0, 12)
    paths = setting.segments(log)
    setting.disk.corrupt(paths[0], 8)  # the length of a batch: the walk can't go on behind it
    setting.disk.corrupt(paths[2], 30)
    setting.round()
    assert [(damage.path, damage.position) for damage in setting.found] == [(paths[0], 0), (paths[2], 0)]


def test_slices_are_bounded_and_go_on_where_they_stopped() -> None:
    setting = _Setting(bytes_per_tick=100)
    log = setting.add_log(0, 12)
    setting.disk.corrupt(setting.segments(log)[2], 40)
    ticks = setting.round()
    assert ticks >= setting.scrubber.checked_bytes // 200
    assert len(setting.found) == 1


def test_tick_waits_for_the_slice_before(setting: _Setting) -> None:
    setting.add_log(0, 12)
    setting.scrubber.tick()
    setting.scrubber.tick()
    assert len(setting.background.waiting) == 1


def test_segments_that_go_away_meanwhile_are_no_damage() -> None:
    setting = _Setting(bytes_per_tick=1)
    log = setting.add_log(0, 12)
    setting.scrubber.tick()
    setting.background.run_all()
    for path in log.truncate_to(4, now_ms=NOW_MS):
        setting.disk.remove(path)
    setting.round()
    assert not setting.found


def test_deleted_log_is_skipped(setting: _Setting) -> None:
    log = setting.add_log(0, 12)
    setting.scrubber.tick()
    setting.disk.remove_tree(log.directory)
    setting.background.run_all()
    assert not setting.found


def test_unreadable_segment_is_damage(setting: _Setting) -> None:
    log = setting.add_log(0, 12)
    path = setting.segments(log)[0]
    setting.disk.fail_next("pread", errno.EIO, path_prefix=path)
    setting.round()
    assert [damage.path for damage in setting.found] == [path]
