"""What a consumer reads: topics, a pattern, or assigned partitions, and the state of each partition.

Owned by the client loop. The user's side writes only `position`, `position_epoch` and `drained_bytes` of a partition,
while it returns records; nothing here sends a request.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from ottla.clients.consumer.errors import IllegalUse
from ottla.clients.consumer.reset import ResetStrategy
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.core.types import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from ottla.links.backoff import Backoff

NO_REPLICA: Final[BrokerId] = -1


class Kind(Enum):
    """The kind of a subscription; a consumer has one kind at a time."""

    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "pattern"
    BY_HAND = "by hand"


class PartitionState:
    """One assigned partition. `position` is the next offset that poll returns, None until it is found.

    The client loop fetches from `fetch_offset`, which is ahead of the position by the records in the fetch buffer.
    `seek_count` says whether fetched records still fit the position.
    """

    __slots__ = (
        "checked_epoch",
        "drained_bytes",
        "failures",
        "fetch_offset",
        "fetched_bytes",
        "high_watermark",
        "is_assigned",
        "is_checking",
        "is_held",
        "is_looking",
        "is_paused",
        "last_stable_offset",
        "log_start_offset",
        "topic_partition",
        "position",
        "position_epoch",
        "preferred_replica",
        "preferred_until_ms",
        "reset",
        "retry_at_ms",
        "seek_count",
        "until",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.position: Offset | None = None
        self.position_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the last record that poll returned
        self.checked_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the leader for which the position was validated
        self.is_checking = False  # a validation is in flight
        self.fetch_offset: Offset = 0
        self.until: Offset | None = None  # fetch only up to here
        self.seek_count = 0
        self.reset: ResetStrategy | None = None  # how to find the position
        self.is_looking = False  # a lookup of the position is in flight
        self.is_paused = False
        self.is_held = False  # the listener has not run for it yet
        self.is_assigned = True
        self.failures = 0  # failed requests since the last success
        self.retry_at_ms = 0
        self.high_watermark: Offset | None = None
        self.last_stable_offset: Offset | None = None
        self.log_start_offset: Offset | None = None
        self.preferred_replica: BrokerId = NO_REPLICA
        self.preferred_until_ms = 0
        self.fetched_bytes = 0  # written by the client loop, only grows
        self.drained_bytes = 0  # written by the user's side, only grows

    @property
    def queued_bytes(self) -> int:
        """Bytes that are fetched and not returned yet."""
        return self.fetched_bytes - self.drained_bytes

    @property
    def is_fetchable(self) -> bool:
        if self.until is not None and self.fetch_offset >= self.until:
            return False
        return self.position is not None and not self.is_paused and not self.is_held

    def seek(self, offset: Offset, leader_epoch: LeaderEpoch = NO_LEADER_EPOCH, *, until: Offset | None = None) -> None:
        """Read from here; batches that were fetched or requested before are dropped."""
        self.seek_count += 1
        self.until = until
        self.reset = None
        self.fetch_offset = offset
        self.position_epoch = leader_epoch
        self.checked_epoch = NO_LEADER_EPOCH
        self.position = offset
        self.failures = 0

    def back_off(self, backoff: Backoff, now_ms: int) -> None:
        """A request for it failed: the next one waits."""
        self.retry_at_ms = now_ms + backoff.delay_ms(self.failures)
        self.failures += 1

    def seek_by(self, strategy: ResetStrategy) -> None:
        """Drop the position and find a new one in this way."""
        self.seek_count += 1
        self.until = None
        self.position = None
        self.reset = strategy


class Subscription:
    """Owned by one consumer's core."""

    def __init__(self) -> None:
        self.kind = Kind.NOTHING
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.states: dict[TopicPartition, PartitionState] = {}

    @property
    def is_of_group(self) -> bool:
        """Whether a group assigns the partitions."""
        return self.kind in (Kind.TOPICS, Kind.PATTERN)

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return list(self.states)

    def subscribe(self, topics: Iterable[str]) -> None:
        self._become(Kind.TOPICS)
        self.topics = frozenset(topics)
        self.pattern = None

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        self._become(Kind.PATTERN)
        self.pattern = pattern

    def match(self, names: Iterable[str], *, exclude_internal: bool) -> bool:
        """Take the topics that the pattern matches now; returns whether they changed."""
        assert self.pattern is not None
        matches = self.pattern.search
        topics = frozenset(name for name in names if matches(name) and not (exclude_internal and name.startswith("__")))
        is_changed = topics != self.topics
        self.topics = topics
        return is_changed

    def assign_partitions(self, topic_partitions: Iterable[TopicPartition]) -> None:
        wanted = list(dict.fromkeys(topic_partitions))
        if not wanted:
            self.unsubscribe()
            return
        self._become(Kind.BY_HAND)
        self.topics = frozenset(topic_partition.topic for topic_partition in wanted)
        self.take(wanted)

    def unsubscribe(self) -> None:
        self.take(())
        self.kind = Kind.NOTHING
        self.topics = frozenset()
        self.pattern = None

    def take(self, topic_partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Assign exactly these partitions: those that stay keep their state; returns the new ones."""
        before = self.states
        self.states = {
            topic_partition: before.get(topic_partition) or PartitionState(topic_partition)
            for topic_partition in topic_partitions
        }
        for topic_partition, state in before.items():
            if topic_partition not in self.states:
                state.is_assigned = False
        return [state for topic_partition, state in self.states.items() if topic_partition not in before]

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        gone = set(topic_partitions)
        self.take([topic_partition for topic_partition in self.states if topic_partition not in gone])

    def state_of(self, topic_partition: TopicPartition) -> PartitionState:
        state = self.states.get(topic_partition)
        if state is None:
            raise IllegalUse(f"{topic_partition} is not assigned to this consumer; assigned: {self._listed()}")
        return state

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The position of every partition that has one, as a commit of everything needs it."""
        return {
            topic_partition: OffsetAndMetadata(position, "", state.position_epoch)
            for topic_partition, state in self.states.items()
            if (position := state.position) is not None
        }

    def _become(self, kind: Kind) -> None:
        if self.kind not in (Kind.NOTHING, kind):
            raise IllegalUse(
                f"subscription by {kind.value} while there is one by {self.kind.value}; unsubscribe first:"
                " a consumer has either topics, a pattern or assigned partitions"
            )
        self.kind = kind

    def _listed(self) -> str:
        return ", ".join(map(str, sorted(self.states))) or "nothing"


def as_offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata | Offset]) -> dict[TopicPartition, OffsetAndMetadata]:
    """A plain number is an offset without metadata."""
    return {
        TopicPartition(*topic_partition): offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        for topic_partition, offset in offsets.items()
    }
