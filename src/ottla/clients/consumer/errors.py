"""What a consumer's user has to tell apart, each as an exception of its own; the code on the wire stays with it.

`error_of` chooses the class for a code; a code without a class of its own is a plain `BrokerError`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.clients.errors import BrokerError, ClientError
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset, TopicPartition


class ConcurrentUse(ClientError):
    """A consumer was used from a second thread or task while the first was still in it."""


class IllegalUse(ClientError):
    """A call that doesn't fit the consumer's state: `assign` beside `subscribe`, a partition that isn't assigned."""


class WokenUp(ClientError):
    """`wakeup` was called: the call that waited was given up, nothing of it was done."""


class DeserializationFailed(ClientError):
    """A record's key or value could not be read; the position stays at it, so `seek` can pass it."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset, part: str, reason: BaseException) -> None:
        self.topic_partition = topic_partition
        self.offset = offset
        super().__init__(
            f"{topic_partition}: the {part} at offset {offset}: {reason!r}; seek past it to go on without it"
        )


class RecordTooLarge(ClientError):
    """A partition's next batch is larger than `max.partition.fetch.bytes`, and its broker sends no more than that."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset, limit_bytes: int) -> None:
        self.topic_partition = topic_partition
        self.offset = offset
        super().__init__(
            f"{topic_partition}: the batch at offset {offset} is larger than max.partition.fetch.bytes={limit_bytes};"
            " raise that"
        )


class InvalidOffset(BrokerError):
    """There is no position to read from, and `auto.offset.reset=none` forbids to choose one."""

    def __init__(self, error_code: int, what: str, topic_partitions: Iterable[TopicPartition]) -> None:
        self.topic_partitions = tuple(topic_partitions)
        super().__init__(error_code, what)


class OffsetOutOfRange(InvalidOffset):
    """A position lies outside of what its partition holds."""

    def __init__(self, positions: Mapping[TopicPartition, Offset]) -> None:
        self.positions = dict(positions)
        listed = ", ".join(f"{topic_partition} at {offset}" for topic_partition, offset in positions.items())
        what = f"fetch: {listed}; auto.offset.reset is none, so seek to where to go on"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, what, positions)


class LogTruncation(OffsetOutOfRange):
    """A partition's new leader has not all that was read: records are lost, others may stand in their place.

    `divergent_offset` is the first offset that differs, None where the leader can't tell.
    """

    def __init__(self, topic_partition: TopicPartition, position: Offset, divergent_offset: Offset | None) -> None:
        self.topic_partition = topic_partition
        self.positions = {topic_partition: position}
        self.divergent_offset = divergent_offset
        known = "somewhere before that" if divergent_offset is None else f"from offset {divergent_offset} on"
        read = f"{topic_partition}: read up to offset {position}"
        what = f"{read}, the new leader's log differs {known}; seek to where to go on"
        InvalidOffset.__init__(self, ErrorCode.OFFSET_OUT_OF_RANGE, what, (topic_partition,))


class NoOffsetForPartition(InvalidOffset):
    """A group has committed nothing for a partition."""

    def __init__(self, topic_partitions: Iterable[TopicPartition]) -> None:
        listed = tuple(topic_partitions)
        names = ", ".join(map(str, listed))
        what = f"no committed offset for {names}; auto.offset.reset is none, so seek to where to begin"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, what, listed)


class CommitFailed(BrokerError):
    """The group went on without this member: what it read may be another's already, and is not committed."""


class RebalanceInProgress(BrokerError):
    """The group is being rebalanced: poll, then commit what is still assigned."""


class FencedInstanceId(BrokerError):
    """Another member has joined under this one's `group.instance.id`: this one is out for good."""


class GroupAuthorizationFailed(BrokerError):
    """This user may not use the group."""


class TopicAuthorizationFailed(BrokerError):
    """This user may not read a topic."""


class InvalidTopic(BrokerError):
    """A name that no topic can have."""


class InvalidGroupId(BrokerError):
    """A group id that the cluster refuses."""


class GroupMaxSizeReached(BrokerError):
    """The group has as many members as the cluster allows."""


class InconsistentGroupProtocol(BrokerError):
    """No assignor that all members of the group have, or what a member sent can't be read."""


class InvalidSessionTimeout(BrokerError):
    """`session.timeout.ms` is outside of what the broker allows."""


class OffsetMetadataTooLarge(BrokerError):
    """The text committed with an offset is longer than the broker allows."""


class UnknownTopicOrPartition(BrokerError):
    """A partition that the cluster doesn't have."""


class CorruptRecords(BrokerError):
    """The broker found its own copy of a partition damaged."""


_CLASSES: Final[dict[int, type[BrokerError]]] = {
    ErrorCode.FENCED_INSTANCE_ID: FencedInstanceId,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: GroupAuthorizationFailed,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TopicAuthorizationFailed,
    ErrorCode.INVALID_TOPIC_EXCEPTION: InvalidTopic,
    ErrorCode.INVALID_GROUP_ID: InvalidGroupId,
    ErrorCode.GROUP_MAX_SIZE_REACHED: GroupMaxSizeReached,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: InconsistentGroupProtocol,
    ErrorCode.INVALID_SESSION_TIMEOUT: InvalidSessionTimeout,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: OffsetMetadataTooLarge,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicOrPartition,
    ErrorCode.CORRUPT_MESSAGE: CorruptRecords,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitFailed,
    ErrorCode.ILLEGAL_GENERATION: CommitFailed,
    ErrorCode.REBALANCE_IN_PROGRESS: RebalanceInProgress,
}


def error_of(error_code: int, what: str, message: str | None = None) -> BrokerError:
    """The exception for a code, not raised yet."""
    return _CLASSES.get(error_code, BrokerError)(error_code, what, message)
