"""Batches whose header does not say how recent their records are, as some clients send them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.core.exchange import Deferred
from ottla.records.build import build_batch
from ottla.records.compression import GZIP, NONE
from ottla.records.header import write_crc
from tests.broker.rig import Rig, decode_produced
from tests.storage.log_making import NOW_MS, headers_of

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.close()


def unsaid(*timestamps: int, codec: int = NONE, value: bytes = b"v", **producer: int) -> bytearray:
    batch = build_batch([(timestamp_ms, b"k", value, ()) for timestamp_ms in timestamps], codec=codec, **producer)
    batch[35:43] = b"\xff" * 8
    write_crc(batch, 0, len(batch))
    return batch


def produce(rig: Rig, batch: bytearray) -> tuple[int, int]:
    """(error code, base offset), with or without a thread."""
    answer = rig.send_produce(("orders", 0, batch))
    if isinstance(answer, Deferred):
        rig.background.run_all()
    produced = decode_produced(answer).topics[0][1][0]
    return produced.error_code, produced.base_offset


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_record_is_found_by_its_time(rig: Rig, codec: int) -> None:
    rig.create_topic()
    for number in range(3):  # the second takes the short way of a head that is known
        assert produce(rig, unsaid(NOW_MS + 10 * number, NOW_MS + 10 * number + 5, codec=codec)) == (0, 2 * number)
    log = rig.partition().log
    assert [header.max_timestamp_ms for header in headers_of(log)] == [NOW_MS + 5, NOW_MS + 15, NOW_MS + 25]
    found = log.offset_for_timestamp(NOW_MS + 15)
    assert found is not None
    assert found.offset == 3
    largest = log.offset_of_max_timestamp()
    assert largest is not None
    assert (largest.timestamp_ms, largest.offset) == (NOW_MS + 25, 5)


def test_compressed_batch_that_grows_is_opened_on_a_thread(rig: Rig) -> None:
    rig.create_topic()
    for _ in range(2):
        answer = rig.send_produce(("orders", 0, unsaid(NOW_MS, codec=GZIP, value=bytes(200_000))))
        assert isinstance(answer, Deferred)
        rig.background.run_all()
        assert decode_produced(answer).topics[0][1][0].error_code == 0
    assert rig.partition().log.log_end_offset == 2


def test_compressed_batch_is_opened_on_a_thread_also_where_no_other_is_and_its_head_is_known(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"ottla.produce.validate.records": "never"})
    rig.create_topic()
    assert produce(rig, build_batch([(NOW_MS, b"k", b"v", ())])) == (0, 0)
    assert isinstance(rig.send_produce(("orders", 0, unsaid(NOW_MS, codec=GZIP))), Deferred)
    rig.close()


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_old_records_go_by_their_own_time(rig: Rig, codec: int) -> None:
    rig.create_topic(retention_ms="1000")
    assert produce(rig, unsaid(NOW_MS - 30 * DAY_MS, codec=codec)) == (0, 0)
    rig.log_manager.delete_expired(rig.now_ms)
    assert rig.partition().log.log_start_offset == 1


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_idempotent_producer_is_remembered(rig: Rig, codec: int) -> None:
    rig.create_topic()
    batch = unsaid(NOW_MS, codec=codec, producer_id=7, producer_epoch=0, base_sequence=0)
    assert produce(rig, batch) == (0, 0)
    rig.log_manager.expire_producers(rig.now_ms)
    assert produce(rig, batch) == (0, 0)  # a repetition
    assert rig.partition().log.log_end_offset == 1


def test_topic_with_a_codec_of_its_own_keeps_the_computed_time(rig: Rig) -> None:
    rig.create_topic(compression_type="gzip")
    assert produce(rig, unsaid(NOW_MS, NOW_MS + 5)) == (0, 0)
    (header,) = headers_of(rig.partition().log)
    assert (header.compression, header.max_timestamp_ms) == (GZIP, NOW_MS + 5)
