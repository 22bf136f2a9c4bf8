"""Partitioners other than the default one (by the key's hash, else sticky): round-robin, and the user's own.

A partitioner is a plain callable: (topic, key, value, partition count) -> partition. It gets the serialized keys and
values. Several threads may call it at once.
"""

from collections.abc import Callable
from itertools import count
from typing import TypeAlias

from ottla.clients.errors import ClientError

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]

ROUND_ROBIN_NAMES = ("round-robin", "RoundRobinPartitioner", "org.apache.kafka.clients.producer.RoundRobinPartitioner")


class RoundRobinPartitioner:
    """Sends each record to the next partition, with or without a key; each topic has its own count."""

    def __init__(self) -> None:
        self._counts: dict[str, count[int]] = {}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        counter = self._counts.get(topic)
        if counter is None:
            # Two threads may get here at once; `setdefault` gives both the same counter.
            counter = self._counts.setdefault(topic, count())
        return next(counter) % partition_count


def checked(partitioner: Partitioner) -> Partitioner:
    """Checks what a user's partitioner returns: a wrong partition must not fail somewhere deep inside."""

    def partition(topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        chosen = partitioner(topic, key, value, partition_count)
        if not isinstance(chosen, int) or not 0 <= chosen < partition_count:
            raise ClientError(
                f"{topic}: the partitioner {partitioner!r} chose {chosen!r}, expected 0 to {partition_count - 1}"
            )
        return chosen

    return partition
