"""The arguments and results of a consumer's calls: records, offsets with metadata, and a group's identity."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ottla.core.types import NO_LEADER_EPOCH, LeaderEpoch, Offset, TimestampMs, TopicPartition
from ottla.records.fetched_record import FetchedRecord as ConsumerRecord

__all__ = ["ConsumerRecord", "GroupMetadata", "OffsetAndMetadata", "OffsetAndTimestamp", "Offsets"]


class OffsetAndMetadata(NamedTuple):
    """The next offset to read, as committed, with the user's metadata."""

    offset: Offset
    metadata: str = ""
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


# A plain number is an offset without metadata.
Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata | Offset]


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time."""

    offset: Offset
    timestamp_ms: TimestampMs
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class GroupMetadata(NamedTuple):
    """The member that commits, as a transaction needs it to commit a consumer's offsets (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None
