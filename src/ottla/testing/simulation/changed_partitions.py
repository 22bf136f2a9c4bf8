"""Which partitions of a broker another look could find something new at: most steps change none.

A look at every partition after every step would cost more than many steps.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from ottla.replication.partition import Partition

# All that rules and sightings look at. One call in C for each partition: it runs after every step of every broker.
_seen_of: Final = attrgetter(
    "state", "high_watermark", "is_offline", "log.log_end_offset", "log.log_start_offset", "topic_id", "topic_partition"
)


class ChangedPartitions:
    """Of one life of a broker."""

    __slots__ = ("_by_partition", "_seen")

    def __init__(self) -> None:
        self._seen: list[tuple[Any, ...]] = []
        self._by_partition: dict[tuple[str, int], tuple[Any, ...]] = {}

    def look(self, partitions: Mapping[tuple[str, int], Partition]) -> list[Partition] | tuple[()]:
        """Those that are not as at the last look, or are new."""
        seen = list(map(_seen_of, partitions.values()))
        if seen == self._seen:
            return ()
        self._seen = seen
        before = self._by_partition
        changed = [
            partition for partition, now in zip(partitions.values(), seen, strict=True) if before.get(now[-1]) != now
        ]
        self._by_partition = {now[-1]: now for now in seen}
        return changed
