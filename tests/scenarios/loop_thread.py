"""An event loop in a thread of its own, for the clients that are awaited; scenarios are written without await."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import cache
from typing import Any, Generic, TypeVar

from tests.scenarios.port import POLL_MS

T = TypeVar("T")


class LoopThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="scenarios").start()

    def start(self, call: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.start(call).result(90)


@cache
def loop_thread() -> LoopThread:
    """One for all clients of a run."""
    return LoopThread()


class Awaited:
    """An object that lives in the loop, as if it blocked: each method is called there, and what it gives is awaited."""

    def __init__(self, make: Callable[[], Any]) -> None:
        async def make_in_loop() -> Any:
            return make()

        self.target = loop_thread().run(make_in_loop())

    def run_with(self, use: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Several calls in one go."""
        return loop_thread().run(use(self.target))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.target, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            async def in_loop() -> Any:
                given = method(*arguments, **keywords)
                return await given if inspect.iscoroutine(given) else given

            return loop_thread().run(in_loop())

        return call


class Asked(Generic[T]):
    """A call that may have to wait for other members, who are polled by the same thread: so nobody waits for it.

    Its result is handed out once it is there, and the next call is made then.
    """

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._ask = ask
        self._under_way: Future[T] | None = None

    def result(self) -> T | None:
        if self._under_way is None:
            self._under_way = loop_thread().start(self._ask())
        wait([self._under_way], 2 * POLL_MS / 1000)
        if not self._under_way.done():
            return None
        asked, self._under_way = self._under_way, None
        return asked.result()
