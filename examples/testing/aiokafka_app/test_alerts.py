"""The tests of that app. With pytest-asyncio or anyio they would be `async def` themselves; nothing else changes."""

import asyncio
from collections.abc import Awaitable, Callable

from alerts import watch

from ottla.testing import OttlaBroker


def run_with_app(broker: OttlaBroker, test: Callable[[], Awaitable[None]]) -> None:
    """The app and the test in one event loop."""

    async def main() -> None:
        stopping = asyncio.Event()
        app = asyncio.create_task(
            watch(broker.bootstrap_servers, readings="readings", alerts="alerts", limit=40, stopping=stopping)
        )
        try:
            await asyncio.wait_for(test(), 30)
        finally:
            stopping.set()
            await app

    broker.create_topic("readings", partitions=2)
    broker.create_topic("alerts")
    asyncio.run(main())


def test_only_high_readings_are_alerts(ottla_broker: OttlaBroker) -> None:
    async def test() -> None:
        ottla_broker.produce("readings", ["39", "41", "12"], partition=0)
        # `broker.aio` waits without blocking the loop that the app runs in.
        await ottla_broker.aio.wait_for_commit("alerts", "readings", 3, partition=0)
        assert [alert.value for alert in await ottla_broker.aio.records("alerts")] == [b"41"]

    run_with_app(ottla_broker, test)


def test_a_lost_answer_gives_no_second_alert(ottla_broker: OttlaBroker) -> None:
    async def test() -> None:
        cut = ottla_broker.cut_next("produce", when="after", client_id="alerts")
        ottla_broker.produce("readings", ["41", "42"], partition=1)
        await ottla_broker.aio.wait_for_commit("alerts", "readings", 2, partition=1)
        assert cut.used == 1
        assert [alert.value for alert in await ottla_broker.aio.records("alerts")] == [b"41", b"42"]

    run_with_app(ottla_broker, test)


def test_nothing_is_committed_before_its_alert_is_stored(ottla_broker: OttlaBroker) -> None:
    async def test() -> None:
        with ottla_broker.hold("produce", client_id="alerts") as hold:
            ottla_broker.produce("readings", ["41"], partition=0)
            await asyncio.to_thread(hold.wait_until_used)
            assert ottla_broker.committed("alerts") == {}
        await ottla_broker.aio.wait_for_commit("alerts", "readings", 1, partition=0)

    run_with_app(ottla_broker, test)
