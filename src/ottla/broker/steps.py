"""Coroutines without an event loop: callbacks carry a start or a stop on, wherever they come from.

So a broker starts in the same way on asyncio and on a scheduler that a test drives by hand. Never per request.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
OnDone: TypeAlias = Callable[[Any, BaseException | None], None]


class Answer(Generic[T]):
    """What a callback will bring; all that such a coroutine can await."""

    __slots__ = ("_is_given", "_value", "on_given")

    _value: T

    def __init__(self) -> None:
        self._is_given = False
        self.on_given: Callable[[], None] | None = None  # set by `Running`

    def give(self, value: T) -> None:
        """Once."""
        assert not self._is_given, "answered twice"
        self._value = value
        self._is_given = True
        if self.on_given is not None:
            self.on_given()

    def __await__(self) -> "Generator[Answer[Any], None, T]":
        if not self._is_given:
            yield self
        return self._value


Steps: TypeAlias = Coroutine[Answer[Any], None, T]


def ask(operation: Callable[..., None], *arguments: Any, **options: Any) -> Answer[Any]:
    """Begin `operation(*arguments, on_done, **options)` now; what it calls `on_done` with can be awaited."""
    answer: Answer[Any] = Answer()
    operation(*arguments, answer.give, **options)
    return answer


async def on_thread(submit: Callable[[Callable[[], T], OnDone], None], work: Callable[[], T]) -> T:
    """The result of `work`, done where `submit` of a background has it done; its error is raised here."""
    answer: Answer[tuple[T, BaseException | None]] = Answer()
    submit(work, lambda result, error: answer.give((result, error)))
    result, error = await answer
    if error is not None:
        raise error
    return result


class Running(Generic[T]):
    """Runs a coroutine from answer to answer; the first step is taken at once. `on_done(result, error)` comes once."""

    __slots__ = ("_is_cancelled", "_on_done", "_steps")

    def __init__(self, steps: "Steps[T]", on_done: Callable[[T | None, Exception | None], None]) -> None:
        self._steps = steps
        self._on_done = on_done
        self._is_cancelled = False
        self._step()

    def cancel(self) -> None:
        """Take no further step. What it waits for goes on, and its result is dropped."""
        self._is_cancelled = True
        self._steps.close()

    def _step(self) -> None:
        if self._is_cancelled:
            return
        result: T | None = None
        error: Exception | None = None
        try:
            self._steps.send(None).on_given = self._step
            return
        except StopIteration as end:
            result = end.value
        except Exception as raised:  # noqa: BLE001 - passed on to `on_done`
            error = raised
        self._on_done(result, error)
