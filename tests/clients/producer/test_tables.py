"""Arrow tables through both faces, on a real broker process."""

import asyncio
from collections.abc import Iterator

import pytest

from ottla.clients.errors import ClientError
from ottla.clients.producer import aio
from ottla.clients.producer.producer import Producer
from tests.clients.producer.test_producer import stored_values
from tests.processes import BrokerProcess

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("broker") / "data", "num.partitions=2").start()
    yield running
    running.close()


def table_of(count: int) -> "pa.Table":
    return pa.table({"value": [b"%06d" % number for number in range(count)]})


def test_a_table_is_stored_in_order_within_its_partitions(broker: BrokerProcess) -> None:
    with Producer(bootstrap_servers=broker.address, buffer_memory=600_000, compression_type="lz4") as producer:
        handle = producer.send_arrow("table", table_of(50_000))
        placed = handle.result(20)
        assert handle.done()
        assert handle.row_count == sum(part.record_count for part in placed) == 50_000
        last = producer.send("table", b"last", partition=0).result(10)
    stored = [stored_values(broker, "table", partition) for partition in (0, 1)]
    assert stored[0].pop() == b"last"
    assert last.offset == len(stored[0])
    assert sorted(value for values in stored for value in values if value) == [b"%06d" % n for n in range(50_000)]
    assert all(values == sorted(values, key=lambda value: value or b"") for values in stored)


def test_records_and_tables_keep_their_order(broker: BrokerProcess) -> None:
    with Producer(bootstrap_servers=broker.address, linger_ms=100) as producer:
        producer.send("mixed", b"a", partition=0)
        table = pa.table({"value": [b"b", b"c"], "partition": pa.array([0, 0], pa.int32())})
        producer.send_arrow("mixed", table)
        producer.send("mixed", b"d", partition=0)
    assert stored_values(broker, "mixed") == [b"a", b"b", b"c", b"d"]


def test_a_table_is_awaited(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with aio.Producer(bootstrap_servers=broker.address) as producer:
            handle = await producer.send_arrow("awaited", table_of(10_000))
            assert sum(part.record_count for part in await handle) == 10_000

    asyncio.run(main())


def test_a_table_without_values_is_refused(broker: BrokerProcess) -> None:
    with Producer(bootstrap_servers=broker.address) as producer, pytest.raises(ValueError, match="value"):
        producer.send_arrow("table", pa.table({"other": [1]}))


def test_a_partitioner_of_ones_own_is_not_passed_over_in_silence(broker: BrokerProcess) -> None:
    with (
        Producer(bootstrap_servers=broker.address, partitioner_class="round-robin") as producer,
        pytest.raises(ClientError, match=r"partitioner\.class"),
    ):
        producer.send_arrow("table", table_of(1))

    async def main() -> None:
        async with aio.Producer(bootstrap_servers=broker.address, partitioner_class=lambda *_: 0) as producer:
            with pytest.raises(ClientError, match=r"partitioner\.class"):
                await producer.send_arrow("table", table_of(1))

    asyncio.run(main())
