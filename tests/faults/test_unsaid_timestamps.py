"""A client that leaves the largest timestamp of its batches out, against a running broker."""

from collections.abc import Callable

import pytest

from ottla.core.clock import wall_clock_ms
from ottla.records.compression import NONE, ZSTD
from ottla.records.header import write_crc
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import EARLIEST, RawClient, batch_of

pytestmark = pytest.mark.process

DAY_MS = 24 * 3600 * 1000


def unsaid(timestamp_ms: int, codec: int) -> bytearray:
    batch = batch_of(b"v", timestamp_ms=timestamp_ms, codec=codec)
    batch[35:43] = b"\xff" * 8
    write_crc(batch, 0, len(batch))
    return batch


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_its_records_are_found_by_time_also_after_a_kill(
    start_broker: Callable[..., BrokerProcess], codec: int
) -> None:
    now_ms = wall_clock_ms()
    broker = start_broker()
    with RawClient(broker.port) as client:
        client.create_topic("unsaid")
        for number in range(4):
            assert client.produce("unsaid", unsaid(now_ms + number, codec)).error_code == 0
        assert client.list_offset("unsaid", now_ms + 2).offset == 2
    broker.kill()
    broker.start()
    with RawClient(broker.port) as client:
        assert client.list_offset("unsaid", now_ms + 2).offset == 2
        assert [record.timestamp_ms for record in client.read_all("unsaid")] == [now_ms + number for number in range(4)]


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_its_old_records_go_by_retention(start_broker: Callable[..., BrokerProcess], codec: int) -> None:
    broker = start_broker("log.retention.check.interval.ms=100")
    with RawClient(broker.port) as client:
        client.create_topic("old", retention_ms="3600000")
        assert client.produce("old", unsaid(wall_clock_ms() - 30 * DAY_MS, codec)).error_code == 0
        eventually(lambda: client.list_offset("old", EARLIEST).offset == 1)
