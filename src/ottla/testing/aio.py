"""`broker.aio`: the methods that take time, for asynchronous tests. They run on a thread; the test's loop goes on."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.clients.admin_groups import GroupDescription
from ottla.core.types import Offset
from ottla.testing.reading import StoredRecord
from ottla.testing.waiting import DEFAULT_TIMEOUT_MS, WaitTimedOut

if TYPE_CHECKING:
    from ottla.testing.broker import OttlaBroker

_POLL_S: Final = 0.01

T = TypeVar("T")


class AsyncBroker:
    """The methods of `OttlaBroker` with the same arguments; faults take effect at once, so they have none here."""

    def __init__(self, broker: "OttlaBroker") -> None:
        self._broker = broker

    async def start(self) -> None:
        await asyncio.to_thread(self._broker.start)

    async def stop(self) -> int:
        return await asyncio.to_thread(self._broker.stop)

    async def kill(self) -> None:
        await asyncio.to_thread(self._broker.kill)

    async def restart(self, *, kill: bool = False, config: Mapping[str, object] | None = None) -> None:
        await asyncio.to_thread(self._broker.restart, kill=kill, config=config)

    async def create_topic(
        self, name: str | None = None, *, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> str:
        return await asyncio.to_thread(self._broker.create_topic, name, partitions=partitions, config=config)

    async def records(self, topic: str) -> list[StoredRecord]:
        return await asyncio.to_thread(self._broker.records, topic)

    async def wait_for_records(
        self,
        topic: str,
        count: int,
        *,
        where: Callable[[StoredRecord], bool] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> list[StoredRecord]:
        return await asyncio.to_thread(self._broker.wait_for_records, topic, count, where=where, timeout_ms=timeout_ms)

    async def wait_for_group(
        self,
        group: str,
        *,
        state: str | None = "Stable",
        members: int | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> GroupDescription:
        return await asyncio.to_thread(
            self._broker.wait_for_group, group, state=state, members=members, timeout_ms=timeout_ms
        )

    async def wait_for_commit(
        self, group: str, topic: str, offset: Offset, *, partition: int = 0, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> Offset:
        return await asyncio.to_thread(
            self._broker.wait_for_commit, group, topic, offset, partition=partition, timeout_ms=timeout_ms
        )

    async def wait_for_requests(
        self, api: str | int, count: int = 1, *, client_id: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        await asyncio.to_thread(self._broker.wait_for_requests, api, count, client_id=client_id, timeout_ms=timeout_ms)

    async def wait_until(
        self,
        condition: Callable[[], T | Awaitable[T]],
        *,
        what: str = "the condition holds",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> T:
        """`condition` is called in the test's own loop, and awaited if it is a coroutine function."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            failure: AssertionError | None = None
            last: object = None
            try:
                found = condition()
                result: T = await found if inspect.isawaitable(found) else found
                if result:
                    return result
                last = result
            except AssertionError as error:
                failure = error
            if time.monotonic() >= deadline:
                seen = str(failure) if failure is not None else f"it gave {last!r}"
                raise WaitTimedOut(f"waited {timeout_ms} ms until {what}; at the end {seen}") from failure
            await asyncio.sleep(_POLL_S)
