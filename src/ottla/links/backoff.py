"""The wait before the next attempt: it doubles with each failure, up to a limit (KIP-580)."""

from random import Random
from typing import Final

_JITTER: Final = 0.2


class Backoff:
    """Randomized by a fifth, so that clients that failed together don't retry together."""

    __slots__ = ("_first_ms", "_max_ms", "_random")

    def __init__(self, *, first_ms: int, max_ms: int, random: Random | None = None) -> None:
        self._first_ms = first_ms
        self._max_ms = max(first_ms, max_ms)
        self._random = random or Random()

    @property
    def first_ms(self) -> int:
        return self._first_ms

    def delay_ms(self, failures: int) -> int:
        """The wait after `failures` failed attempts."""
        delay_ms = min(self._first_ms << min(failures, 30), self._max_ms)
        return round(delay_ms * self._random.uniform(1 - _JITTER, 1 + _JITTER))
