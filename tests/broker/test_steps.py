"""Coroutines that go on from callback to callback."""

from typing import Any

import pytest

from ottla.broker.steps import Answer, Running, Steps, ask, on_thread
from tests.storage.hand_driven import HandBackground


class Ends:
    """How a coroutine ended."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, Exception | None]] = []

    def __call__(self, result: Any, error: Exception | None) -> None:
        self.heard.append((result, error))


def test_each_answer_takes_it_one_step_further() -> None:
    first, second = Answer[int](), Answer[int]()
    ends = Ends()

    async def add() -> int:
        return await first + await second

    Running(add(), ends)
    first.give(3)
    assert ends.heard == []
    second.give(4)
    assert ends.heard == [(7, None)]


def test_what_is_answered_at_once_is_not_waited_for() -> None:
    ends = Ends()

    async def add_up() -> int:
        asked = [ask(lambda number, on_done: on_done(number), number) for number in range(5)]
        return sum([await answer for answer in asked])

    Running(add_up(), ends)
    assert ends.heard == [(10, None)]


def test_error_is_handed_to_whoever_runs_it() -> None:
    answer = Answer[None]()
    ends = Ends()

    async def fail() -> None:
        await answer
        raise OSError("no space")

    Running(fail(), ends)
    answer.give(None)
    ((result, error),) = ends.heard
    assert result is None
    assert isinstance(error, OSError)


def test_cancelled_one_takes_no_further_step() -> None:
    answer = Answer[None]()
    ends = Ends()
    steps: list[str] = []

    async def walk() -> None:
        try:
            await answer
            steps.append("gone on")
        finally:
            steps.append("ended")

    running = Running(walk(), ends)
    running.cancel()
    answer.give(None)
    assert steps == ["ended"]
    assert ends.heard == []


@pytest.mark.parametrize("is_wrong", [False, True])
def test_work_in_the_background_gives_its_result_or_its_error(is_wrong: bool) -> None:
    background = HandBackground()
    ends = Ends()

    def work() -> int:
        if is_wrong:
            raise OSError("no space")
        return 7

    steps: Steps[int] = on_thread(background.submit, work)
    Running(steps, ends)
    assert ends.heard == []
    background.run_one()
    ((result, error),) = ends.heard
    assert (result, type(error)) == ((None, OSError) if is_wrong else (7, type(None)))
