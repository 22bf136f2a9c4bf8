"""A fetch that waits for `min_bytes`: read again when one of its partitions moves, answered at the latest in time."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ottla.purgatory.purgatory import DelayedOperation


class ReadResult(Protocol):
    """The result of a read of several partitions."""

    @property
    def is_enough(self) -> bool:
        """Enough bytes for the client, or something that it must learn at once."""
        ...


ResultT = TypeVar("ResultT", bound=ReadResult)


class DelayedFetch(DelayedOperation, Generic[ResultT]):
    """Holds the question, never record bytes: a read is a few file slices, so asking again is cheap."""

    __slots__ = ("_on_done", "_read", "_result")

    def __init__(self, read: Callable[[], ResultT], on_done: Callable[[ResultT], None]) -> None:
        super().__init__()
        self._read = read
        self._on_done = on_done
        self._result: ResultT | None = None

    def try_complete(self) -> bool:
        result = self._read()
        if not result.is_enough:
            return False
        self._result = result
        return self.force_complete()

    def on_complete(self) -> None:
        result = self._result
        self._on_done(self._read() if result is None else result)
