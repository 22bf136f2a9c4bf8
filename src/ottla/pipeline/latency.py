"""A latency histogram of fixed size: any number of latencies costs the same memory, and percentiles are cheap."""

from typing import Final

_FINE_PER_MS: Final = 20
_FINE_MS_MAX: Final = 100
_FINE_BUCKETS: Final = _FINE_PER_MS * _FINE_MS_MAX
_COARSE_MS_MAX: Final = 60_000


class LatencyHistogram:
    """Buckets of 0.05 ms up to 100 ms, then of 1 ms up to a minute, where it ends."""

    __slots__ = ("_buckets", "count", "max_ms")

    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0.0
        self._buckets = [0] * (_FINE_BUCKETS + _COARSE_MS_MAX - _FINE_MS_MAX + 1)

    def add(self, latency_ms: float) -> None:
        if latency_ms < 0:
            latency_ms = 0.0  # clocks of two processes
        if latency_ms > self.max_ms:
            self.max_ms = latency_ms
        self.count += 1
        if latency_ms < _FINE_MS_MAX:
            self._buckets[int(latency_ms * _FINE_PER_MS)] += 1
        else:
            coarse_ms = min(int(latency_ms), _COARSE_MS_MAX)
            self._buckets[_FINE_BUCKETS + coarse_ms - _FINE_MS_MAX] += 1

    def percentile_ms(self, percent: float) -> float | None:
        """The upper end of the bucket that reaches this share of all; None without any latency."""
        if not self.count:
            return None
        wanted = self.count * percent / 100
        seen = 0
        for index, count in enumerate(self._buckets):
            seen += count
            if count and seen >= wanted:
                upper = (
                    (index + 1) / _FINE_PER_MS if index < _FINE_BUCKETS else index - _FINE_BUCKETS + _FINE_MS_MAX + 1.0
                )
                return min(upper, self.max_ms)
        return self.max_ms
