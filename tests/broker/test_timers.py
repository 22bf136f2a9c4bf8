"""The one timer of the loop that drives the wheel, and work that repeats."""

import pytest

from ottla.broker.timers import Repeating, Timers
from ottla.core.timing_wheel import TimerTask
from tests.storage.hand_driven import HandLoop


class Noting(TimerTask):
    __slots__ = ("_loop", "ran_at")

    def __init__(self, loop: HandLoop) -> None:
        super().__init__()
        self._loop = loop
        self.ran_at: list[float] = []

    def run(self, now_ms: int) -> None:
        self.ran_at.append(self._loop.now)


@pytest.fixture
def loop() -> HandLoop:
    return HandLoop()


@pytest.fixture
def timers(loop: HandLoop) -> Timers:
    return Timers(loop)


def test_idle_wheel_has_no_timer(loop: HandLoop, timers: Timers) -> None:
    timers.arm()
    assert loop.pending == []


def test_task_runs_at_its_time_and_not_before(loop: HandLoop, timers: Timers) -> None:
    task = Noting(loop)
    timers.add(task, delay_ms=250)
    loop.run_for(249)
    assert task.ran_at == []
    loop.run_for(3)
    assert len(task.ran_at) == 1
    assert loop.pending == []


def test_one_timer_stands_at_the_next_expiry(loop: HandLoop, timers: Timers) -> None:
    late, soon = Noting(loop), Noting(loop)
    timers.add(late, delay_ms=5000)
    timers.add(soon, delay_ms=10)
    assert len(loop.pending) == 1
    loop.run_for(12)
    assert len(soon.ran_at) == 1
    assert late.ran_at == []
    loop.run_for(5000)
    assert len(late.ran_at) == 1


def test_cancelled_task_costs_at_most_one_empty_wakeup(loop: HandLoop, timers: Timers) -> None:
    task = Noting(loop)
    timers.add(task, delay_ms=10)
    task.cancel()
    assert loop.run_for(1000) <= 1
    assert task.ran_at == []
    assert loop.pending == []


def test_task_that_fails_does_not_stop_the_others(loop: HandLoop, timers: Timers) -> None:
    class Failing(TimerTask):
        def run(self, now_ms: int) -> None:
            raise RuntimeError("a bug")

    later = Noting(loop)
    timers.add(Failing(), delay_ms=10)
    timers.add(later, delay_ms=20)
    with pytest.raises(RuntimeError, match="a bug"):
        loop.run_for(15)
    loop.run_for(30)
    assert len(later.ran_at) == 1


def test_closed_timers_fire_no_more(loop: HandLoop, timers: Timers) -> None:
    task = Noting(loop)
    timers.add(task, delay_ms=10)
    timers.close()
    timers.close()
    loop.run_for(100)
    assert task.ran_at == []


def test_work_repeats_and_its_first_turn_comes_after_one_interval(loop: HandLoop, timers: Timers) -> None:
    ran: list[float] = []
    timers.every(100, lambda: ran.append(loop.now))
    loop.run_for(99)
    assert ran == []
    loop.run_for(1000)
    assert 9 <= len(ran) <= 10


def test_work_that_fails_on_the_disk_is_tried_again(loop: HandLoop, timers: Timers) -> None:
    ran: list[int] = []

    def work() -> None:
        ran.append(1)
        raise OSError("no space")

    timers.every(100, work)
    loop.run_for(350)
    assert len(ran) == 3


def test_stopped_work_does_not_come_again(loop: HandLoop, timers: Timers) -> None:
    ran: list[int] = []
    task = timers.every(100, lambda: ran.append(1))
    loop.run_for(150)
    task.stop()
    loop.run_for(1000)
    assert ran == [1]
    assert len(timers.wheel) == 0


def test_work_can_stop_itself(loop: HandLoop, timers: Timers) -> None:
    tasks: list[Repeating] = []
    ran: list[int] = []

    def work() -> None:
        ran.append(1)
        tasks[0].stop()

    tasks.append(timers.every(100, work))
    loop.run_for(1000)
    assert ran == [1]
    assert len(timers.wheel) == 0
    assert loop.pending == []
