"""What the clients of a run saw, in their order: what they sent, what was acknowledged, what they read and committed.

It only records. `rules.py` says afterwards whether a correct cluster can have such a history. Every value that is sent
must be another one, so that a value names its record.
"""

from enum import Enum
from typing import NamedTuple

from ottla.core.types import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition

ACKS_ALL = -1
UNKNOWN_OFFSET: Offset = -1  # a duplicate so old that its place is forgotten
NO_COMMIT: Offset = -1


class Sent(NamedTuple):
    """Who sent a value; an idempotent producer's must be in the log once however often it was sent."""

    client: str
    is_idempotent: bool


class Ack(NamedTuple):
    """An acknowledgement under acks=all."""

    offset: Offset
    value: bytes
    leader_epoch: LeaderEpoch


class Reader(NamedTuple):
    """A position in a partition that moves on by reading."""

    by: str
    partition: TopicPartition


class Assignment(NamedTuple):
    """What a member of a group owns in one generation."""

    group: str
    generation: int
    partition: TopicPartition


class CommitStep(Enum):
    SENT = "sent"
    ACKED = "acked"
    READ = "read"


class Commit(NamedTuple):
    """A step of a group's committed offset in one partition; NO_COMMIT is read where there is none."""

    step: CommitStep
    group: str
    partition: TopicPartition
    offset: Offset


class History:
    """One run. Owned by the simulation, filled by its clients."""

    def __init__(self) -> None:
        self.values: dict[TopicPartition, dict[bytes, Sent]] = {}
        self.acks: dict[TopicPartition, list[Ack]] = {}
        # Each run of a reader is a stretch without a seek.
        self.runs: dict[Reader, list[list[tuple[Offset, bytes]]]] = {}
        self.owners: dict[Assignment, dict[str, None]] = {}
        self.commits: list[Commit] = []
        self.deleted_before: dict[TopicPartition, Offset] = {}  # at most: it was asked for
        self.lossy: dict[
            TopicPartition, str
        ] = {}  # partitions that may have lost what was acknowledged, with the reason

    def sent(self, value: bytes, client: str, partition: TopicPartition, *, is_idempotent: bool = False) -> None:
        """Before the request goes out: whatever becomes of it, the value may be in the log from now on."""
        self.values.setdefault(partition, {})[value] = Sent(client, is_idempotent)

    def acked(
        self,
        value: bytes,
        partition: TopicPartition,
        offset: Offset,
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        *,
        acks: int = ACKS_ALL,
    ) -> None:
        """A successful answer for one record, which is at `offset` unless that is UNKNOWN_OFFSET. Without acks=all it
        promises nothing, and is not kept."""
        if acks == ACKS_ALL:
            self.acks.setdefault(partition, []).append(Ack(offset, value, leader_epoch))

    def read(self, partition: TopicPartition, offset: Offset, value: bytes, by: str) -> None:
        """A record that a consumer got, in the order in which it got them."""
        self.runs.setdefault(Reader(by, partition), [[]])[-1].append((offset, value))

    def sought(self, partition: TopicPartition, by: str) -> None:
        """The reader goes on elsewhere: a seek, another assignment, or a reset to the start of the log."""
        self.runs.setdefault(Reader(by, partition), [[]]).append([])

    def owned(self, group: str, generation: int, member: str, partition: TopicPartition) -> None:
        """A member was assigned a partition."""
        self.owners.setdefault(Assignment(group, generation, partition), {})[member] = None

    def commit_sent(self, group: str, partition: TopicPartition, offset: Offset) -> None:
        self.commits.append(Commit(CommitStep.SENT, group, partition, offset))

    def commit_acked(self, group: str, partition: TopicPartition, offset: Offset) -> None:
        self.commits.append(Commit(CommitStep.ACKED, group, partition, offset))

    def commit_read(self, group: str, partition: TopicPartition, offset: Offset) -> None:
        """An answer to OffsetFetch that was asked for when no commit was open."""
        self.commits.append(Commit(CommitStep.READ, group, partition, offset))

    def deletion_asked(self, partition: TopicPartition, before_offset: Offset) -> None:
        """Before the request goes out: the log may start at that offset from now on."""
        self.deleted_before[partition] = max(self.deleted_before.get(partition, 0), before_offset)

    def may_lose(self, partition: TopicPartition, reason: str) -> None:
        """Something happened that may cost acknowledged records, as documented: an unclean election, or all copies
        lost. What the partition's log says is not judged any more."""
        self.lossy[partition] = reason

    def deleted(self, topic: str) -> None:
        """Forget a topic: another one of this name has nothing to do with it."""
        self.values = {partition: sent for partition, sent in self.values.items() if partition.topic != topic}
        self.acks = {partition: acks for partition, acks in self.acks.items() if partition.topic != topic}
        self.runs = {reader: runs for reader, runs in self.runs.items() if reader.partition.topic != topic}
        self.commits = [commit for commit in self.commits if commit.partition.topic != topic]
        self.deleted_before = {
            partition: asked for partition, asked in self.deleted_before.items() if partition.topic != topic
        }
