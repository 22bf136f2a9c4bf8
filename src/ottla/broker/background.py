"""Threads for what blocks or burns CPU: fsync, recovery, re-compression, cold reads. Results return on the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class ThreadBackground:
    """The `Background` port over a thread pool; threads start when they are first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, threads: int) -> None:
        self._loop = loop
        self.executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="ottla-background")
        self._is_closed = False

    def submit(self, work: Callable[[], Any], on_done: Callable[[Any, BaseException | None], None]) -> None:
        if self._is_closed:
            return  # as with what `close` drops: the broker stops, and nobody waits for the result

        def report(future: "Future[Any]") -> None:
            if future.cancelled():
                return  # dropped by `close` before it started: nobody waits for the result
            error = future.exception()
            result = None if error is not None else future.result()
            try:
                self._loop.call_soon_threadsafe(on_done, result, error)
            except RuntimeError:
                pass  # the loop is closed: the broker has stopped and nobody waits for the result

        self.executor.submit(work).add_done_callback(report)

    def close(self) -> None:
        """Wait for what runs and drop what has not started, also what comes later."""
        self._is_closed = True
        self.executor.shutdown(wait=True, cancel_futures=True)
