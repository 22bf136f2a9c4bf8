"""The asyncio face on a real broker process."""

import asyncio
from collections.abc import Iterator

import pytest

from ottla.clients.errors import TimedOut
from ottla.clients.producer.aio import Producer
from ottla.clients.producer.errors import BufferExhausted, ProducerClosed, SerializationFailed
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("broker") / "data").start()
    yield running
    running.close()


async def send_many(producer: Producer, count: int) -> None:
    for _ in range(count):
        await producer.send("orders", b"x" * 1_000)


def test_handles_are_awaited(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=broker.address) as producer:
            first = await producer.send("orders", b"1", timestamp_ms=5)
            second = await producer.send("orders", b"2")
            with pytest.raises(asyncio.InvalidStateError):
                second.result()
            assert await first == ("orders", 0, 0, 5)
            assert (await second).offset == 1
            assert second.result().offset == 1
            seen: list[bool] = []
            await producer.send("orders", b"3", on_delivery=lambda handle: seen.append(handle.done()))
            await producer.flush(10_000)
            assert seen == [True]
            assert len(await producer.partitions_for("orders")) == 1

    asyncio.run(main())


def test_a_loop_that_sends_without_a_pause_still_sends(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=broker.address, buffer_memory=200_000, batch_size=16_384) as producer:
            handles = [await producer.send("many", b"x" * 100) for _ in range(10_000)]
            assert (await handles[-1]).offset == 9_999

    asyncio.run(main())


def test_cancelling_who_awaits_does_not_cancel_the_record(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=broker.address, linger_ms=50) as producer:
            handle = await producer.send("cancelled", b"x")
            waiting = asyncio.ensure_future(handle)
            await asyncio.sleep(0)
            waiting.cancel()
            await producer.flush(10_000)
            assert handle.result().offset == 0

    asyncio.run(main())


def test_errors_are_raised_in_time(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=200) as producer:
            with pytest.raises(TimedOut, match="topic orders: not known after 200 ms"):
                await producer.send("orders", b"x")
        producer = Producer(bootstrap_servers=broker.address)
        with pytest.raises(SerializationFailed):
            await producer.send("orders", "text")
        await producer.close()
        with pytest.raises(ProducerClosed):
            await producer.send("orders", b"x")

    asyncio.run(main())


def test_memory_that_is_used_up_holds_send_for_max_block_ms() -> None:
    async def main() -> None:
        producer = Producer(bootstrap_servers="127.0.0.1:1", buffer_memory=20_000, batch_size=10_000, max_block_ms=100)
        producer._core.accumulator.learn_topic("orders", 1)
        with pytest.raises(BufferExhausted, match="no room for a record after 100 ms"):
            await send_many(producer, 30)
        await producer.close(50)

    asyncio.run(main())
