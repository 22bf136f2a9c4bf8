"""Counters of the network: plain integers that the loop's thread adds to and anybody may read."""


class NetworkMetrics:
    """Owned by the server; `connections` is the number now, everything else only grows."""

    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "cold_reads", "connections", "frames", "refused")

    def __init__(self) -> None:
        self.connections = 0
        self.accepted = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.frames = 0
        self.cold_reads = 0
        self.closed: dict[str, int] = {}  # by reason
        self.refused: dict[str, int] = {}  # by the limit that was reached

    def count_closed(self, reason: str) -> None:
        self.closed[reason] = self.closed.get(reason, 0) + 1

    def count_refused(self, limit: str) -> None:
        self.refused[limit] = self.refused.get(limit, 0) + 1
