"""Threads whose results come back on the loop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.broker.background import ThreadBackground


def with_background(body: Callable[[ThreadBackground, asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        background = ThreadBackground(loop, threads=2)
        try:
            await body(background, loop)
        finally:
            background.close()

    asyncio.run(run())


def test_result_and_error_come_back_on_the_loop() -> None:
    async def body(background: ThreadBackground, loop: asyncio.AbstractEventLoop) -> None:
        done: asyncio.Queue[tuple[Any, BaseException | None, int]] = asyncio.Queue()

        def on_done(result: Any, error: BaseException | None) -> None:
            done.put_nowait((result, error, threading.get_ident()))

        background.submit(threading.get_ident, on_done)
        worker, error, told_on = await done.get()
        assert error is None
        assert worker != threading.get_ident() == told_on
        background.submit(lambda: 1 // 0, on_done)
        result, error, told_on = await done.get()
        assert result is None
        assert isinstance(error, ZeroDivisionError)
        assert told_on == threading.get_ident()

    with_background(body)


def test_close_waits_for_what_runs_and_drops_the_rest() -> None:
    async def body(background: ThreadBackground, loop: asyncio.AbstractEventLoop) -> None:
        release = threading.Event()
        started = threading.Barrier(3)
        finished: list[str] = []

        def work() -> None:
            started.wait()
            release.wait()
            finished.append("running")

        for _ in range(2):
            background.submit(work, lambda *_: None)
        waiting = background.executor.submit(lambda: finished.append("waiting"))
        waiting.add_done_callback(lambda _: release.set())  # when it is dropped: the others still run then
        started.wait()
        background.close()
        background.submit(lambda: finished.append("late"), lambda *_: None)
        assert finished == ["running", "running"]

    with_background(body)


def test_result_after_the_end_of_the_loop_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    background = ThreadBackground(loop, threads=1)
    loop.close()
    background.submit(lambda: 7, lambda *_: None)
    background.close()


def test_threads_can_become_fewer_and_more_while_work_goes_on() -> None:
    async def body(background: ThreadBackground, loop: asyncio.AbstractEventLoop) -> None:
        release = threading.Event()
        started = threading.Event()
        done: asyncio.Queue[str] = asyncio.Queue()

        def work() -> str:
            started.set()
            release.wait()
            return "old"

        executor = background.executor
        background.submit(work, lambda result, error: done.put_nowait(result))
        started.wait()
        background.resize(3)
        together = threading.Barrier(3)  # broken unless three run at a time, beside the old one
        for _ in range(3):
            background.submit(lambda: together.wait(30) >= 0, lambda result, error: done.put_nowait("new"))
        assert [await done.get() for _ in range(3)] == ["new"] * 3
        release.set()
        assert await done.get() == "old"
        assert background.executor is executor  # the network keeps a reference to it
        assert executor.threads == 3

    with_background(body)


def test_last_work_waits_for_what_runs_and_nothing_comes_after_it() -> None:
    async def body(background: ThreadBackground, loop: asyncio.AbstractEventLoop) -> None:
        release = threading.Event()
        started = threading.Barrier(2)
        done: list[str] = []
        ended: asyncio.Future[str] = loop.create_future()

        def work() -> None:
            started.wait()
            release.wait()
            done.append("running")

        background.submit(work, lambda *_: None)
        started.wait()
        background.run_last(lambda: done.append("last"), lambda *_: ended.set_result("ended"))
        background.submit(lambda: done.append("late"), lambda *_: None)
        release.set()
        assert await ended == "ended"
        assert done == ["running", "last"]

    with_background(body)


def test_map_keeps_the_order_and_works_on_several_threads() -> None:
    async def body(background: ThreadBackground, loop: asyncio.AbstractEventLoop) -> None:
        together = threading.Barrier(3)  # broken unless three run at a time

        def work(number: int) -> int:
            together.wait(30)
            return number * 10

        assert background.map(work, [1, 2, 3], threads=3) == [10, 20, 30]

    with_background(body)
