"""Threads for what blocks or burns CPU: fsync, recovery, re-compression, cold reads. Results return on the loop."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
OnDone = Callable[[Any, BaseException | None], None]


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
    """The background of a broker over a thread pool; threads start when they are first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, threads: int) -> None:
        self._loop = loop
        self.executor = ResizableThreads(threads)
        self._is_closed = False

    def resize(self, threads: int) -> None:
        """Run at most `threads` threads from now on; work that was submitted before ends on the old ones."""
        self.executor.resize(threads)

    def submit(self, work: Callable[[], Any], on_done: OnDone) -> None:
        if not self._is_closed:  # else it is dropped, as by `close`: the broker stops, and nobody waits for the result
            self._submit_to(self.executor, work, on_done)

    def map(self, work: Callable[[T], R], items: Iterable[T], *, threads: int) -> list[R]:
        """As the built-in one, but on threads of its own; blocks."""
        with ThreadPoolExecutor(threads, "ottla-recovery") as pool:
            return list(pool.map(work, items))

    def run_last(self, work: Callable[[], Any], on_done: OnDone) -> None:
        """Drop what has not begun, and what comes later; do `work` when everything that runs has ended."""
        self._is_closed = True

        def close_and_work() -> Any:
            self.close()
            return work()

        last = _new_pool(1)
        self._submit_to(last, close_and_work, on_done)
        last.shutdown(wait=False)

    def _submit_to(self, executor: Executor, work: Callable[[], Any], on_done: OnDone) -> None:
        def report(future: "Future[Any]") -> None:
            if future.cancelled():
                return  # dropped by `close` before it started: nobody waits for the result
            error = future.exception()
            result = None if error is not None else future.result()
            try:
                self._loop.call_soon_threadsafe(on_done, result, error)
            except RuntimeError:
                pass  # the loop is closed: the broker has stopped and nobody waits for the result

        executor.submit(work).add_done_callback(report)

    def close(self) -> None:
        """Wait for what runs and drop what has not started, also what comes later."""
        self._is_closed = True
        self.executor.shutdown(wait=True, cancel_futures=True)


def _new_pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=threads, thread_name_prefix="ottla-background")
