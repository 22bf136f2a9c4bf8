"""Operations that wait: completed once, by an event, by the wheel, or not at all when the peer is gone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.timing_wheel import TimingWheel
from ottla.purgatory.purgatory import DelayedOperation, Purgatory


class Waiting(DelayedOperation):
    """Is done when its `ready` says so; writes down how it ended."""

    __slots__ = ("ended", "name", "ready", "tries")

    def __init__(self, ended: list[str], name: str) -> None:
        super().__init__()
        self.ended = ended
        self.name = name
        self.ready = False
        self.tries = 0

    def try_complete(self) -> bool:
        self.tries += 1
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.ended.append(f"{self.name} completed")

    def on_expiration(self) -> None:
        self.ended.append(f"{self.name} expired")


@pytest.fixture
def wheel() -> TimingWheel:
    return TimingWheel()


@pytest.fixture
def purgatory(wheel: TimingWheel) -> Purgatory:
    return Purgatory(wheel)


@pytest.fixture
def ended() -> list[str]:
    return []


def watch(purgatory: Purgatory, operation: Waiting, *keys: str, timeout_ms: int = 500, now_ms: int = 0) -> bool:
    return purgatory.try_complete_else_watch(operation, keys, timeout_ms=timeout_ms, now_ms=now_ms)


def test_operation_that_is_ready_completes_at_once_and_is_not_watched(
    purgatory: Purgatory, wheel: TimingWheel, ended: list[str]
) -> None:
    operation = Waiting(ended, "a")
    operation.ready = True
    assert watch(purgatory, operation, "k")
    assert ended == ["a completed"]
    assert (purgatory.watched, purgatory.delayed, len(wheel)) == (0, 0, 0)


def test_event_on_any_key_completes_a_ready_operation_and_clears_its_other_keys_and_timer(
    purgatory: Purgatory, wheel: TimingWheel, ended: list[str]
) -> None:
    operation = Waiting(ended, "a")
    assert not watch(purgatory, operation, "k1", "k2", "k3")
    assert (purgatory.watched, purgatory.delayed, len(wheel)) == (3, 1, 1)
    assert purgatory.check_and_complete("k2") == 0
    operation.ready = True
    assert purgatory.check_and_complete("unwatched") == 0
    assert purgatory.check_and_complete("k2") == 1
    assert purgatory.check_and_complete("k1") == 0
    assert ended == ["a completed"]
    assert (purgatory.watched, purgatory.delayed, len(wheel)) == (0, 0, 0)


def test_timeout_completes_then_expires_and_leaves_nothing_watched(
    purgatory: Purgatory, wheel: TimingWheel, ended: list[str]
) -> None:
    operation = Waiting(ended, "a")
    watch(purgatory, operation, "k1", "k2", timeout_ms=500)
    wheel.advance(499)
    assert ended == []
    wheel.advance(500)
    assert ended == ["a completed", "a expired"]
    assert operation.is_completed
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_operation_completed_by_an_event_does_not_expire_later(
    purgatory: Purgatory, wheel: TimingWheel, ended: list[str]
) -> None:
    operation = Waiting(ended, "a")
    watch(purgatory, operation, "k")
    operation.ready = True
    purgatory.check_and_complete("k")
    wheel.advance(10_000)
    assert ended == ["a completed"]


def test_force_complete_counts_once(purgatory: Purgatory, ended: list[str]) -> None:
    operation = Waiting(ended, "a")
    watch(purgatory, operation, "k")
    assert operation.force_complete()
    assert not operation.force_complete()
    operation.abandon()
    assert ended == ["a completed"]
    assert purgatory.watched == 0


def test_abandoned_operation_is_gone_without_completing(
    purgatory: Purgatory, wheel: TimingWheel, ended: list[str]
) -> None:
    operation = Waiting(ended, "a")
    watch(purgatory, operation, "k1", "k2")
    operation.abandon()
    assert operation.is_completed
    assert not operation.force_complete()
    wheel.advance(10_000)
    assert ended == []
    assert (purgatory.watched, purgatory.delayed, len(wheel)) == (0, 0, 0)


def test_operations_of_a_key_complete_in_the_order_they_came(purgatory: Purgatory, ended: list[str]) -> None:
    operations = [Waiting(ended, name) for name in "abc"]
    for operation in operations:
        watch(purgatory, operation, "k")
        operation.ready = True
    assert purgatory.check_and_complete("k") == 3
    assert ended == ["a completed", "b completed", "c completed"]


def test_completion_that_completes_a_neighbour_counts_it_once(purgatory: Purgatory, ended: list[str]) -> None:
    class Chained(Waiting):
        __slots__ = ("neighbour",)

        def on_complete(self) -> None:
            super().on_complete()
            self.neighbour.force_complete()

    first = Chained(ended, "a")
    second = Waiting(ended, "b")
    first.neighbour = second
    for operation in (first, second):
        watch(purgatory, operation, "k")
        operation.ready = True
    assert purgatory.check_and_complete("k") == 1
    assert ended == ["a completed", "b completed"]


def test_operation_added_while_its_key_is_checked_waits_for_the_next_event(
    purgatory: Purgatory, ended: list[str]
) -> None:
    class Spawning(Waiting):
        __slots__ = ()

        def on_complete(self) -> None:
            super().on_complete()
            watch(purgatory, Waiting(ended, "child"), "k")

    operation = Spawning(ended, "a")
    watch(purgatory, operation, "k")
    operation.ready = True
    assert purgatory.check_and_complete("k") == 1
    assert purgatory.delayed == 1


def test_key_given_twice_is_watched_once(purgatory: Purgatory, ended: list[str]) -> None:
    operation = Waiting(ended, "a")
    watch(purgatory, operation, "k", "k")
    assert purgatory.watched == 1
    operation.force_complete()
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_marks_are_completed_together_and_each_key_is_checked_once(purgatory: Purgatory, ended: list[str]) -> None:
    operation = Waiting(ended, "a")
    watch(purgatory, operation, "k")
    for _ in range(100):
        purgatory.mark("k")
    operation.ready = True
    assert ended == []
    assert operation.tries == 1
    assert purgatory.complete_marked() == 1
    assert operation.tries == 2
    assert purgatory.complete_marked() == 0


def test_mark_of_a_key_nobody_watches_costs_no_turn(purgatory: Purgatory) -> None:
    purgatory.mark("k")
    assert not purgatory.has_marks


def test_mark_made_while_marks_are_completed_stays_for_the_next_turn(purgatory: Purgatory, ended: list[str]) -> None:
    class Marking(Waiting):
        __slots__ = ()

        def on_complete(self) -> None:
            super().on_complete()
            purgatory.mark("j")

    first = Marking(ended, "a")
    second = Waiting(ended, "b")
    watch(purgatory, first, "k")
    watch(purgatory, second, "j")
    first.ready = second.ready = True
    purgatory.mark("k")
    assert purgatory.complete_marked() == 1
    assert purgatory.has_marks
    assert purgatory.complete_marked() == 1
    assert ended == ["a completed", "b completed"]


def test_shell_is_told_of_the_first_mark_of_a_turn_only(wheel: TimingWheel, ended: list[str]) -> None:
    planned: list[str] = []
    purgatory = Purgatory(wheel, on_mark=lambda: planned.append("turn"))
    operation = Waiting(ended, "a")
    watch(purgatory, operation, "k", "j")
    purgatory.mark("unwatched")
    assert planned == []
    purgatory.mark("k")
    purgatory.mark("j")
    assert planned == ["turn"]
    purgatory.complete_marked()
    purgatory.mark("k")
    assert planned == ["turn", "turn"]


@settings(max_examples=150, deadline=None)
@given(
    actions=st.lists(
        st.tuples(
            st.sampled_from(["watch", "ready", "event", "mark", "turn", "abandon", "force", "advance"]),
            st.integers(0, 12),
            st.integers(0, 3),
        ),
        max_size=60,
    )
)
def test_every_operation_ends_exactly_once_and_nothing_dead_stays_watched(actions: list[tuple[str, int, int]]) -> None:
    ended: list[str] = []
    wheel = TimingWheel()
    purgatory = Purgatory(wheel)
    operations: list[Waiting] = []
    abandoned = 0
    now_ms = 0
    for kind, number, key in actions:
        operation = operations[number] if number < len(operations) else None
        if kind == "watch":
            added = Waiting(ended, str(len(operations)))
            operations.append(added)
            keys = [str(index) for index in range(key + 1)]
            purgatory.try_complete_else_watch(added, keys, timeout_ms=number * 10, now_ms=now_ms)
        elif kind == "event":
            purgatory.check_and_complete(str(key))
        elif kind == "mark":
            purgatory.mark(str(key))
        elif kind == "turn":
            purgatory.complete_marked()
        elif kind == "advance":
            now_ms += number * 7
            wheel.advance(now_ms)
        elif operation is not None and kind == "ready":
            operation.ready = True
        elif operation is not None and kind == "abandon":
            abandoned += not operation.is_completed
            operation.abandon()
        elif operation is not None and kind == "force":
            operation.force_complete()
        waiting = [operation for operation in operations if not operation.is_completed]
        assert purgatory.delayed == len(waiting) == len(wheel)
        assert purgatory.watched == sum(len(operation._keys) for operation in waiting)
    wheel.advance(now_ms + 1_000)
    assert all(operation.is_completed for operation in operations)
    completed = [line for line in ended if line.endswith(" completed")]
    assert len(completed) == len(set(completed)) == len(operations) - abandoned
    assert (purgatory.watched, purgatory.delayed, len(wheel)) == (0, 0, 0)
