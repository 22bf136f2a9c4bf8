"""The timing wheel against a plain model, and its cost counted in calls."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.core.timing_wheel import TimerTask, TimingWheel


class Recorder(TimerTask):
    """Writes down its name and the time it ran at."""

    __slots__ = ("name", "ran")

    def __init__(self, ran: list[tuple[int, int]], name: int) -> None:
        super().__init__()
        self.ran = ran
        self.name = name

    def run(self, now_ms: int) -> None:
        self.ran.append((self.name, now_ms))


class Calling(TimerTask):
    """Does what it was given."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[int], None]) -> None:
        super().__init__()
        self.action = action

    def run(self, now_ms: int) -> None:
        self.action(now_ms)


def run_to(wheel: TimingWheel, now_ms: int) -> list[int]:
    """Advance as the shell does, from expiry to expiry; gives the times at which it woke up."""
    woken = []
    while (expiry_ms := wheel.next_expiry_ms()) is not None and expiry_ms <= now_ms:
        woken.append(expiry_ms)
        wheel.advance(expiry_ms)
    wheel.advance(now_ms)
    return woken


@pytest.mark.parametrize("delay_ms", [1, 19, 20, 21, 399, 400, 401, 7_999, 8_000, 160_000, 31_536_000_000])
def test_task_runs_at_its_delay_and_not_before(delay_ms: int) -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel(start_ms=12_345)
    wheel.add(Recorder(ran, 1), delay_ms=delay_ms, now_ms=12_345)
    run_to(wheel, 12_345 + delay_ms - 1)
    assert ran == []
    assert len(wheel) == 1
    run_to(wheel, 12_345 + delay_ms)
    assert ran == [(1, 12_345 + delay_ms)]
    assert len(wheel) == 0


def test_worked_example_of_the_module() -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel()
    for name, delay_ms in ((1, 7), (2, 45), (3, 410)):
        wheel.add(Recorder(ran, name), delay_ms=delay_ms, now_ms=0)
    assert run_to(wheel, 1_000) == [7, 40, 45, 400, 410]
    assert ran == [(1, 7), (2, 45), (3, 410)]


def test_expiration_is_rounded_up_to_the_tick() -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel(tick_ms=10)
    wheel.add(Recorder(ran, 1), delay_ms=11, now_ms=0)
    run_to(wheel, 19)
    assert ran == []
    run_to(wheel, 20)
    assert ran == [(1, 20)]


@pytest.mark.parametrize("delay_ms", [0, -1, -1_000_000])
def test_task_without_delay_runs_at_the_next_tick_never_inside_add(delay_ms: int) -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel(start_ms=100)
    wheel.add(Recorder(ran, 1), delay_ms=delay_ms, now_ms=100)
    assert ran == []
    assert wheel.next_expiry_ms() == 101
    wheel.advance(101)
    assert ran == [(1, 101)]


def test_cancelled_task_never_runs_and_cancel_says_if_it_did_anything() -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel()
    task = Recorder(ran, 1)
    assert not task.cancel()
    wheel.add(task, delay_ms=500, now_ms=0)
    assert task.is_scheduled
    assert task.cancel()
    assert not task.cancel()
    assert not task.is_scheduled
    assert len(wheel) == 0
    assert wheel.next_expiry_ms() is None
    assert wheel.advance(10_000) == 0
    assert ran == []


def test_slot_emptied_by_cancel_is_used_again() -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel()
    first = Recorder(ran, 1)
    wheel.add(first, delay_ms=5, now_ms=0)
    first.cancel()
    assert wheel.next_expiry_ms() is None
    wheel.add(Recorder(ran, 2), delay_ms=5, now_ms=0)
    assert wheel.next_expiry_ms() == 5
    wheel.advance(5)
    assert ran == [(2, 5)]


def test_adding_a_waiting_task_again_moves_it() -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel()
    task = Recorder(ran, 1)
    wheel.add(task, delay_ms=5, now_ms=0)
    wheel.add(task, delay_ms=50, now_ms=0)
    assert len(wheel) == 1
    run_to(wheel, 100)
    assert ran == [(1, 50)]


def test_running_task_may_cancel_one_of_its_own_tick_and_add_itself_again() -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel()
    victim = Recorder(ran, 9)

    def act(now_ms: int) -> None:
        ran.append((1, now_ms))
        victim.cancel()
        if now_ms < 15:
            wheel.add(task, delay_ms=5, now_ms=now_ms)

    task = Calling(act)
    wheel.add(task, delay_ms=5, now_ms=0)
    wheel.add(victim, delay_ms=5, now_ms=0)
    run_to(wheel, 100)
    assert ran == [(1, 5), (1, 10), (1, 15)]


def test_running_task_may_ask_for_the_next_expiry() -> None:
    ran: list[tuple[int, int]] = []
    seen: list[int | None] = []
    wheel = TimingWheel()
    wheel.add(Calling(lambda now_ms: seen.append(wheel.next_expiry_ms())), delay_ms=5, now_ms=0)
    wheel.add(Recorder(ran, 2), delay_ms=6, now_ms=0)
    wheel.advance(6)
    assert seen == [6]
    assert ran == [(2, 6)]


def test_task_that_raises_leaves_the_others_in_the_wheel() -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel()

    def fail(now_ms: int) -> None:
        raise RuntimeError("task failed")

    wheel.add(Calling(fail), delay_ms=5, now_ms=0)
    wheel.add(Recorder(ran, 2), delay_ms=5, now_ms=0)
    with pytest.raises(RuntimeError, match="task failed"):
        wheel.advance(5)
    assert wheel.next_expiry_ms() == 5
    assert wheel.advance(5) == 1
    assert ran == [(2, 5)]


def test_step_limit_leaves_the_rest_due() -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel()
    for name in range(10):
        wheel.add(Recorder(ran, name), delay_ms=5, now_ms=0)
    assert wheel.advance(7, step_limit=4) == 4
    assert wheel.next_expiry_ms() == 5
    wheel.add(Recorder(ran, 10), delay_ms=0, now_ms=7)
    assert wheel.advance(7) == 7
    assert [name for name, _ in ran] == list(range(11))
    assert wheel.next_expiry_ms() is None


def test_short_delay_after_an_idle_hour_starts_in_the_finest_wheel() -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel()
    wheel.add(Recorder(ran, 1), delay_ms=7_200_000, now_ms=0)
    wheel.add(Recorder(ran, 2), delay_ms=7, now_ms=3_600_001)
    assert wheel.next_expiry_ms() == 3_600_008


@settings(max_examples=200, deadline=None)
@given(
    tick_ms=st.sampled_from([1, 1, 3]),
    slots=st.sampled_from([2, 3, 20]),
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(-2, 30) | st.integers(0, 3_000)),
            st.tuples(st.just("cancel"), st.integers(0, 40)),
            st.tuples(st.just("move"), st.integers(0, 40)),
            st.tuples(st.just("advance"), st.integers(0, 25) | st.integers(0, 2_000)),
            st.tuples(st.just("idle"), st.integers(0, 500)),
            st.tuples(st.just("some"), st.integers(0, 3)),
        ),
        max_size=60,
    ),
)
@example(tick_ms=1, slots=2, actions=[("add", 0), ("idle", 2), ("add", -1)])
def test_runs_exactly_what_a_plain_list_of_deadlines_would(
    tick_ms: int, slots: int, actions: list[tuple[str, int]]
) -> None:
    ran: list[tuple[int, int]] = []
    wheel = TimingWheel(tick_ms=tick_ms, slots=slots, start_ms=1_000)
    tasks: list[Recorder] = []
    waiting: dict[int, int] = {}  # name -> the time before which it must not run
    now_ms = 1_000
    for kind, number in actions:
        if kind == "add":
            task = Recorder(ran, len(tasks))
            tasks.append(task)
            wheel.add(task, delay_ms=number, now_ms=now_ms)
            waiting[task.name] = task.expiration_ms
            assert 0 <= task.expiration_ms - (now_ms + max(number, 0)) <= tick_ms
        elif kind == "cancel" and number < len(tasks):
            assert tasks[number].cancel() == (number in waiting)
            waiting.pop(number, None)
        elif kind == "move" and number < len(tasks):
            wheel.add(tasks[number], delay_ms=number, now_ms=now_ms)
            waiting[number] = tasks[number].expiration_ms
        elif kind == "idle":
            now_ms += number  # time passes and nobody advances the wheel
        elif kind in ("advance", "some"):
            del ran[:]
            if kind == "some":
                wheel.advance(now_ms, step_limit=number)
                assert all(waiting[name] <= now_ms for name, _ in ran)
            else:
                now_ms += number
                due = {name for name, expiration_ms in waiting.items() if expiration_ms <= now_ms}
                assert wheel.advance(now_ms) == len(due)
                assert {name for name, _ in ran} == due
                order = [waiting[name] for name, _ in ran]
                assert order == sorted(order)
            for name, at_ms in ran:
                assert at_ms == now_ms
                del waiting[name]
        assert len(wheel) == len(waiting)
        next_expiry_ms = wheel.next_expiry_ms()
        if waiting:
            assert next_expiry_ms is not None
            assert next_expiry_ms <= min(waiting.values())
        else:
            assert next_expiry_ms is None


def count_calls(action: Callable[[], object]) -> int:
    """How many functions, Python's and C's, one action calls."""
    calls = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


class Nothing(TimerTask):
    """A task that costs nothing itself."""

    __slots__ = ()

    def run(self, now_ms: int) -> None:
        pass


def calls_per_task(task_count: int) -> tuple[float, float, float]:
    wheel = TimingWheel()
    tasks = [Nothing() for _ in range(task_count)]

    def add_all() -> None:
        for index, task in enumerate(tasks):
            wheel.add(task, delay_ms=500 + index % 1_000, now_ms=0)

    def cancel_all() -> None:
        for task in tasks:
            task.cancel()

    added = count_calls(add_all)
    cancelled = count_calls(cancel_all)
    add_all()
    expired = count_calls(lambda: run_to(wheel, 2_000))
    assert len(wheel) == 0
    return added / task_count, cancelled / task_count, expired / task_count


@pytest.mark.slow
def test_100_000_timers_cost_no_more_each_than_1_000() -> None:
    few = calls_per_task(1_000)
    many = calls_per_task(100_000)
    for few_calls, many_calls in zip(few, many, strict=True):
        assert many_calls <= few_calls
    added, cancelled, expired = many
    assert added < 3
    assert cancelled < 2
    assert expired < 8  # taken out, run, and placed again in each of two finer wheels


def test_queue_of_buckets_does_not_grow_with_the_tasks() -> None:
    wheel = TimingWheel()
    for index in range(20_000):
        task = Nothing()
        wheel.add(task, delay_ms=index % 7_000, now_ms=index // 100)
        if index % 3:
            task.cancel()
    assert len(wheel._queue) <= 20 * len(wheel._wheels)
    assert len(wheel._wheels) == 3
