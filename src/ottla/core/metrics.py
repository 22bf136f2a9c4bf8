"""Counters for the rooms: plain numbers in small objects, changed on the event loop only.

No names, no labels, no text: the exporter (`broker/metrics/`) names and prints the numbers; it reads these objects when
a client asks for metrics.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

NANOSECONDS = 1_000_000_000

# Upper bounds in nanoseconds. Answers from memory take tens of microseconds, an fsync milliseconds, a long poll half a
# second, a rebalance many seconds; the last bucket, without a bound, is for the rest.
REQUEST_BOUNDS_NS = tuple(
    microseconds * 1000
    for microseconds in (
        *(50, 100, 250, 500),
        *(1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
        *(1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000),
    )
)


class HistogramReading(NamedTuple):
    """A histogram at one moment; `counts` has one entry more than `bounds_ns`, and each value is counted once."""

    bounds_ns: tuple[int, ...]
    counts: tuple[int, ...]
    sum_ns: int


class Histogram:
    """How long something took, in buckets that are fixed when it is made. One addition costs about 0.2 us.

    A hot path may do what `observe` does with its own local names.
    """

    __slots__ = ("bounds_ns", "counts", "sum_ns")

    def __init__(self, bounds_ns: Sequence[int] = REQUEST_BOUNDS_NS) -> None:
        self.bounds_ns = tuple(bounds_ns)
        assert self.bounds_ns and list(self.bounds_ns) == sorted(set(self.bounds_ns)), "bounds must grow"
        self.counts = [0] * (len(self.bounds_ns) + 1)
        self.sum_ns = 0

    def observe(self, elapsed_ns: int) -> None:
        """Count one value; a bound belongs to the bucket that it ends."""
        self.counts[bisect_left(self.bounds_ns, elapsed_ns)] += 1
        self.sum_ns += elapsed_ns

    @property
    def count(self) -> int:
        return sum(self.counts)

    def read(self) -> HistogramReading:
        return HistogramReading(self.bounds_ns, tuple(self.counts), self.sum_ns)


class ErrorCounts:
    """How often answers had which error code; answers without one are not counted."""

    __slots__ = ("by_code",)

    def __init__(self) -> None:
        self.by_code: dict[int, int] = {}

    def add(self, error_code: int) -> None:
        by_code = self.by_code
        by_code[error_code] = by_code.get(error_code, 0) + 1
