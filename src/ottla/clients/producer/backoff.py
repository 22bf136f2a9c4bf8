"""How long to wait before the next attempt: `retry.backoff.ms`, doubled each time up to `retry.backoff.max.ms`."""

from random import Random
from typing import Final

_JITTER: Final = 0.2


class Backoff:
    """Spread by a fifth, so that clients that failed together don't come back together."""

    __slots__ = ("_first_ms", "_most_ms", "_random")

    def __init__(self, *, first_ms: int, most_ms: int, random: Random | None = None) -> None:
        self._first_ms = first_ms
        self._most_ms = max(first_ms, most_ms)
        self._random = random or Random()

    def delay_ms(self, attempts: int) -> int:
        """After `attempts` earlier ones that failed."""
        delay_ms = min(self._first_ms << min(attempts, 30), self._most_ms)
        return round(delay_ms * self._random.uniform(1 - _JITTER, 1 + _JITTER))
