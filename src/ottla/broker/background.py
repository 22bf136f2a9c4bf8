"""Threads for what blocks or burns CPU: fsync, recovery, re-compression, cold reads. Results return on the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any


class ResizableThreads(Executor):
    """A thread pool whose size can change, for those who keep a reference to it. Event loop only."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = _new_pool(threads)
        self._outgrown: list[ThreadPoolExecutor] = []  # they end by themselves when their work is done

    @property
    def threads(self) -> int:
        return self._threads

    def resize(self, threads: int) -> None:
        if threads != self._threads:
            self._threads = threads
            self._pool.shutdown(wait=False)
            self._outgrown.append(self._pool)
            self._pool = _new_pool(threads)

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> "Future[Any]":
        return self._pool.submit(work, *arguments, **options)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for pool in (*self._outgrown, self._pool):
            pool.shutdown(wait=wait, cancel_futures=cancel_futures)


class ThreadBackground:
    """The `Background` port over a thread pool; threads start when they are first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, threads: int) -> None:
        self._loop = loop
        self.executor = ResizableThreads(threads)
        self._is_closed = False

    def resize(self, threads: int) -> None:
        """From now on at most so many threads run; what was submitted before goes on on the old ones."""
        self.executor.resize(threads)

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


def _new_pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=threads, thread_name_prefix="ottla-background")
