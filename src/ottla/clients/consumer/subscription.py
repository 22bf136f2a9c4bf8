"""What a consumer reads: topics, a pattern, or partitions by hand, and for each partition where it stands.

Owned by the loop. Only `position`, `position_epoch` and `drained_bytes` of a partition are the user's side's to write,
while it hands records out; nothing here asks a broker.
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
    """How the partitions came to be assigned; one way at a time."""

    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "pattern"
    BY_HAND = "by hand"


class PartitionState:
    """One assigned partition. `position` is the next offset to hand out, None until it is found.

    The client loop asks brokers for `fetch_offset`, which runs ahead of the position by what lies fetched and not yet
    handed out. `seek_count` tells whether what was fetched still belongs to the position.
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
        self.position_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the last record handed out
        self.checked_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the leader under which the position is known to be sound
        self.is_checking = False  # a request that finds out whether it is, is under way
        self.fetch_offset: Offset = 0
        self.until: Offset | None = None  # nothing from here on is asked for
        self.seek_count = 0
        self.reset: ResetStrategy | None = None  # the position is to be found in this way
        self.is_looking = False  # a request that finds the position is under way
        self.is_paused = False
        self.is_held = False  # the listener has not been told of it yet
        self.is_assigned = True
        self.failures = 0  # of requests for it, since the last that succeeded
        self.retry_at_ms = 0
        self.high_watermark: Offset | None = None
        self.last_stable_offset: Offset | None = None
        self.log_start_offset: Offset | None = None
        self.preferred_replica: BrokerId = NO_REPLICA
        self.preferred_until_ms = 0
        self.fetched_bytes = 0  # written by the client loop, ever growing
        self.drained_bytes = 0  # written by the user's side, ever growing

    @property
    def queued_bytes(self) -> int:
        """Fetched and not handed out."""
        return self.fetched_bytes - self.drained_bytes

    @property
    def is_fetchable(self) -> bool:
        if self.until is not None and self.fetch_offset >= self.until:
            return False
        return self.position is not None and not self.is_paused and not self.is_held

    def seek(self, offset: Offset, leader_epoch: LeaderEpoch = NO_LEADER_EPOCH, *, until: Offset | None = None) -> None:
        """From here on; what was fetched or asked for before is dropped when it turns up."""
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
        """Find a new position in this way; there is none until then."""
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
        """Whether a group shares the partitions out."""
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
        """Take the topics that the pattern means now; whether that is a change."""
        assert self.pattern is not None
        matches = self.pattern.search
        topics = frozenset(name for name in names if matches(name) and not (exclude_internal and name.startswith("__")))
        is_changed = topics != self.topics
        self.topics = topics
        return is_changed

    def assign_by_hand(self, topic_partitions: Iterable[TopicPartition]) -> None:
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
        """Exactly these from now on: those that stay keep their state; the new ones are returned."""
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
        """Of every partition that has one: what a commit of all that was read says."""
        return {
            topic_partition: OffsetAndMetadata(position, "", state.position_epoch)
            for topic_partition, state in self.states.items()
            if (position := state.position) is not None
        }

    def _become(self, kind: Kind) -> None:
        if self.kind not in (Kind.NOTHING, kind):
            raise IllegalUse(
                f"subscription by {kind.value} while there is one by {self.kind.value}; unsubscribe first:"
                " topics, pattern and partitions by hand exclude each other"
            )
        self.kind = kind

    def _listed(self) -> str:
        return ", ".join(map(str, sorted(self.states))) or "nothing"


def as_offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata | Offset]) -> dict[TopicPartition, OffsetAndMetadata]:
    """A plain number is an offset without a text."""
    return {
        TopicPartition(*topic_partition): offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        for topic_partition, offset in offsets.items()
    }
