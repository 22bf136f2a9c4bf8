"""What a broker does by the clock."""

import pytest

from ottla.core.types import TopicPartition
from tests.broker.conftest import MakeRig
from tests.broker.rig import Rig
from tests.storage.log_making import batch

ORDERS = TopicPartition("orders", 0)


class Housekept:
    """A rig whose time goes on second by second."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.housekeeping = rig.core.housekeeping

    def run_for(self, delay_ms: int) -> None:
        for _ in range(delay_ms // 1000):
            self.rig.loop.run_for(1000)
            self.rig.settle()


@pytest.fixture
def housekept(make_rig: MakeRig) -> Housekept:
    rig = make_rig(
        {
            "log.retention.check.interval.ms": "10000",
            "log.flush.scheduler.interval.ms": "1000",
            "ottla.log.scrub.interval.ms": "60000",
        }
    )
    return Housekept(rig)


def test_due_flushes_happen_by_the_clock(housekept: Housekept) -> None:
    rig = housekept.rig
    rig.create_topic(flush_ms="3000")
    rig.produce(batch(b"a"))
    housekept.run_for(1000)
    assert rig.partition().log.unflushed_messages == 1
    housekept.run_for(5000)
    assert rig.partition().log.unflushed_messages == 0


def test_expired_segments_go_and_their_files_after_the_delay(housekept: Housekept) -> None:
    rig = housekept.rig
    rig.create_topic(retention_ms="5000", file_delete_delay_ms="20000")
    rig.produce(batch(b"a", timestamp_ms=rig.now_ms))
    housekept.run_for(20_000)
    assert rig.partition().log.log_start_offset == 1
    names = {entry.name for entry in rig.disk.list("/data/orders-0")}
    assert any(name.endswith(".deleted") for name in names)
    housekept.run_for(30_000)
    names = {entry.name for entry in rig.disk.list("/data/orders-0")}
    assert not any(name.endswith(".deleted") for name in names)


def test_retention_keeps_what_is_above_the_high_watermark(housekept: Housekept) -> None:
    rig = housekept.rig
    rig.create_topic(retention_ms="5000", flush_ms="9000000")
    rig.partition().high_watermark = 0
    rig.partition().log.append_as_leader(batch(b"a", timestamp_ms=rig.now_ms), leader_epoch=0, now_ms=rig.now_ms)
    housekept.run_for(20_000)
    assert rig.partition().log.log_start_offset == 0


def test_high_watermarks_are_checkpointed_when_they_move_and_at_the_end(housekept: Housekept) -> None:
    rig = housekept.rig
    rig.create_topic()
    rig.produce(batch(b"a"))
    housekept.run_for(6000)
    assert rig.log_manager.read_high_watermarks()[0] == {ORDERS: 1}
    writes = rig.disk.counts["write_atomically"]
    housekept.housekeeping.checkpoint_high_watermarks()
    rig.settle()
    assert rig.disk.counts["write_atomically"] == writes, "nothing moved"
    rig.produce(batch(b"b"))
    housekept.housekeeping.stop()
    rig.settle()
    assert rig.log_manager.read_high_watermarks()[0] == {ORDERS: 2}


def test_silent_producers_are_forgotten(housekept: Housekept) -> None:
    rig = housekept.rig
    rig.create_topic()
    rig.produce(batch(b"a", producer_id=9, producer_epoch=0, base_sequence=0))
    rig.now_ms += 24 * 3600 * 1000
    housekept.run_for(700_000)
    # Its state is gone, so a sequence from the middle is taken as that of a new producer.
    assert rig.produce(batch(b"b", producer_id=9, producer_epoch=0, base_sequence=0)) == (0, 1)


def test_scrub_ticks_only_while_a_round_is_under_way(housekept: Housekept) -> None:
    rig = housekept.rig
    rig.create_topic()
    rig.produce(batch(b"a"))
    idle = len(housekept.rig.wheel)
    housekept.run_for(70_000)
    assert housekept.housekeeping._scrubber.rounds_finished == 1
    assert len(housekept.rig.wheel) == idle
    housekept.run_for(180_000)
    assert housekept.housekeeping._scrubber.rounds_finished == 4
    assert len(housekept.rig.wheel) == idle


def test_damage_is_told(housekept: Housekept, caplog: pytest.LogCaptureFixture) -> None:
    rig = housekept.rig
    rig.create_topic(segment_bytes="1048576")
    rig.produce(batch(b"a" * 100))
    rig.partition().log.roll(rig.now_ms)
    rig.disk.corrupt("/data/orders-0/00000000000000000000.log", 80)
    housekept.run_for(70_000)
    assert "orders-0" in caplog.text
    assert "damaged at 0" in caplog.text


def test_nothing_is_left_in_the_wheel_after_the_stop(housekept: Housekept) -> None:
    housekept.run_for(61_000)  # within a scrub
    housekept.housekeeping.stop()
    assert len(housekept.rig.wheel) == 0
