"""The time of a simulation: order, drift, and processes that stop, go on and die."""

import pytest

from ottla.testing.simulated_disk import SimulatedCrash
from ottla.testing.simulation.scheduler import ProcessLoop, Scheduler, StillRunning
from ottla.testing.simulation.threads import SimulatedThreads


def scheduler_with_loop(seed: int = 1, **options: float) -> tuple[Scheduler, ProcessLoop]:
    scheduler = Scheduler(seed)
    return scheduler, ProcessLoop(scheduler, "process", **options)


def test_what_is_due_runs_in_the_order_of_its_time_then_of_the_calls() -> None:
    scheduler, loop = scheduler_with_loop()
    ran: list[str] = []
    loop.call_at(2.0, lambda: ran.append("second"))
    loop.call_at(1.0, lambda: ran.append("first"))
    loop.call_at(2.0, lambda: ran.append("third"))
    loop.call_at(1.5, lambda: ran.append("never")).cancel()
    scheduler.run_until(1.9)
    assert (ran, scheduler.now) == (["first"], 1.9)
    scheduler.run_until(2.0)
    assert ran == ["first", "second", "third"]


def test_call_soon_is_another_turn_in_the_order_of_the_calls() -> None:
    scheduler, loop = scheduler_with_loop()
    ran: list[int] = []

    def again() -> None:
        ran.append(1)
        loop.call_soon(lambda: ran.append(3))

    loop.call_soon(again)
    loop.call_soon(lambda: ran.append(2))
    assert ran == []
    scheduler.run_until(lambda: bool(ran), within_s=1)
    assert ran == [1, 2]
    scheduler.run_until(1.0)
    assert ran == [1, 2, 3]


def test_clocks_of_a_process_drift_and_its_timers_with_them() -> None:
    scheduler, loop = scheduler_with_loop(rate=2.0, starts_at=100.0)
    fired_at: list[float] = []
    loop.call_at(110.0, lambda: fired_at.append(scheduler.now))
    loop.call_later(2.0, lambda: fired_at.append(scheduler.now))
    started_ms = loop.clock()
    scheduler.run_until(10.0)
    assert fired_at == [1.0, 5.0]
    assert loop.time() == 120.0
    assert loop.clock() == started_ms + 20_000
    loop.clock_offset_ms = -500
    assert loop.clock() == started_ms + 19_500


def test_what_comes_due_in_a_stopped_process_waits_until_it_goes_on() -> None:
    scheduler, loop = scheduler_with_loop()
    ran: list[tuple[str, float]] = []
    for name, when in (("first", 1.0), ("second", 2.0), ("third", 9.0)):
        loop.call_at(when, lambda name=name: ran.append((name, scheduler.now)))  # type: ignore[misc]
    cancelled = loop.call_at(3.0, lambda: ran.append(("cancelled", 0)))
    loop.stop()
    scheduler.run_until(5.0)
    assert ran == []
    cancelled.cancel()
    loop.go_on()
    scheduler.run_until(10.0)
    assert ran == [("first", 5.0), ("second", 5.0), ("third", 9.0)]


def test_nothing_of_a_killed_process_runs() -> None:
    scheduler, loop = scheduler_with_loop()
    ran: list[int] = []
    loop.call_soon(lambda: ran.append(1))
    loop.call_at(1.0, lambda: ran.append(2))
    loop.kill()
    loop.call_soon(lambda: ran.append(3))
    loop.call_at(1.0, lambda: ran.append(4))
    loop.go_on()
    scheduler.run_until(5.0)
    assert ran == []


def test_a_turn_ends_with_the_process() -> None:
    scheduler, loop = scheduler_with_loop()
    ran: list[int] = []
    loop.call_soon(loop.kill)
    loop.call_soon(lambda: ran.append(1))
    scheduler.run_until(1.0)
    assert ran == []


def test_a_condition_that_does_not_come_to_hold() -> None:
    scheduler, _ = scheduler_with_loop(seed=7)
    with pytest.raises(StillRunning, match="seed 7"):
        scheduler.run_until(lambda: False, within_s=3)


def test_a_step_that_fails_ends_the_run_and_says_where() -> None:
    scheduler, loop = scheduler_with_loop(seed=7)

    def fail() -> None:
        raise ValueError("broken")

    loop.call_at(1.0, fail)
    with pytest.raises(ValueError) as failure:
        scheduler.run_until(2.0)
    assert failure.value.__notes__ == ["in process at 1.000000 s of the simulation with seed 7"]


def test_the_process_may_take_a_failure_on_itself() -> None:
    scheduler, loop = scheduler_with_loop()
    ran: list[int] = []
    failures: list[Exception] = []

    def take(error: Exception) -> bool:
        failures.append(error)
        return True

    def fail() -> None:
        raise ValueError("broken")

    loop.on_error = take
    loop.call_at(1.0, fail)
    loop.call_at(2.0, lambda: ran.append(1))
    scheduler.run_until(3.0)
    assert len(failures) == 1
    assert ran == [1]


def test_digest_is_that_of_the_steps() -> None:
    def run(seed: int, *, rounds: int = 3000) -> str:
        scheduler, loop = scheduler_with_loop(seed)
        left = [rounds]

        def again() -> None:
            left[0] -= 1
            if left[0]:
                loop.call_soon(again)

        loop.call_soon(again)
        scheduler.run_until(10.0)
        scheduler.note(loop, "the end")
        assert scheduler.trace.last_steps()[-1].kind == "the end"
        assert len(scheduler.trace.last_steps()) == 400
        return scheduler.trace.digest()

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert run(1) != run(1, rounds=3001)


def test_work_on_a_thread_and_its_result_are_two_later_steps() -> None:
    scheduler, loop = scheduler_with_loop()
    threads = SimulatedThreads(loop, scheduler.random("threads"))
    happened: list[object] = []

    def work() -> str:
        happened.append(scheduler.now)
        return "done"

    threads.submit(work, lambda result, error: happened.append((result, error, scheduler.now)))
    assert happened == []
    scheduler.run_until(lambda: len(happened) == 1, within_s=1)
    scheduler.run_until(lambda: len(happened) == 2, within_s=1)
    assert isinstance(happened[1], tuple)
    assert happened[1][:2] == ("done", None)
    assert happened[1][2] > happened[0]
    assert threads.map(len, ["a", "bc"], threads=2) == [1, 2]


def test_a_failure_on_a_thread_is_its_owners_but_not_a_loss_of_power() -> None:
    scheduler, loop = scheduler_with_loop()
    threads = SimulatedThreads(loop, scheduler.random("threads"))
    errors: list[BaseException | None] = []

    def fail(error: Exception) -> None:
        raise error

    threads.submit(lambda: fail(OSError("disk")), lambda _, error: errors.append(error))
    scheduler.run_until(1.0)
    assert [type(error) for error in errors] == [OSError]
    threads.submit(lambda: fail(SimulatedCrash("off")), lambda _, error: errors.append(error))
    with pytest.raises(SimulatedCrash):
        scheduler.run_until(2.0)
    assert len(errors) == 1


def test_the_last_work_drops_what_has_not_begun() -> None:
    scheduler, loop = scheduler_with_loop()
    threads = SimulatedThreads(loop, scheduler.random("threads"))
    ran: list[str] = []
    threads.submit(lambda: ran.append("dropped"), lambda *_: None)
    threads.run_last(lambda: ran.append("last"), lambda *_: ran.append("reported"))
    threads.submit(lambda: ran.append("too late"), lambda *_: None)
    scheduler.run_until(1.0)
    assert ran == ["last", "reported"]
