"""The exceptions of a consumer; each keeps the error code of the broker, if it has one.

`error_of` chooses the class for a code; a code without its own class becomes a plain `BrokerError`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.clients.errors import BrokerError, ClientError
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset, TopicPartition


class ConcurrentUse(ClientError):
    """A second thread or task used a consumer during a call of the first."""


class IllegalUse(ClientError):
    """A call that doesn't fit the consumer's state: `assign` after `subscribe`, a partition that isn't assigned."""


class WokenUp(ClientError):
    """`wakeup` was called: the waiting call ended and did nothing."""


class DeserializationFailed(ClientError):
    """A record's key or value could not be deserialized; the position stays at the record, `seek` can skip it."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset, part: str, reason: BaseException) -> None:
        self.topic_partition = topic_partition
        self.offset = offset
        super().__init__(
            f"{topic_partition}: the {part} at offset {offset}: {reason!r}; seek past it to go on without it"
        )


class RecordTooLarge(ClientError):
    """A partition's next batch is larger than `max.partition.fetch.bytes`, and the broker does not send it whole."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset, limit_bytes: int) -> None:
        self.topic_partition = topic_partition
        self.offset = offset
        super().__init__(
            f"{topic_partition}: the batch at offset {offset} is larger than max.partition.fetch.bytes={limit_bytes};"
            " raise that"
        )


class InvalidOffset(BrokerError):
    """There is no position to read from, and `auto.offset.reset=none` allows no other."""

    def __init__(self, error_code: int, what: str, topic_partitions: Iterable[TopicPartition]) -> None:
        self.topic_partitions = tuple(topic_partitions)
        super().__init__(error_code, what)


class OffsetOutOfRange(InvalidOffset):
    """A position is outside of the partition's log."""

    def __init__(self, positions: Mapping[TopicPartition, Offset]) -> None:
        self.positions = dict(positions)
        listed = ", ".join(f"{topic_partition} at {offset}" for topic_partition, offset in positions.items())
        what = f"fetch: {listed}; auto.offset.reset is none, so seek to where to go on"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, what, positions)


class LogTruncation(OffsetOutOfRange):
    """A partition's new leader lacks records that were read: they are lost, and others may have their offsets.

    `divergent_offset` is the first offset that differs, None if the leader can't say.
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
    """This member is out of the group: its partitions may belong to another already, and nothing was committed."""


class RebalanceInProgress(BrokerError):
    """The group is being rebalanced: poll, then commit what is still assigned."""


class FencedInstanceId(BrokerError):
    """Another member has joined with the same `group.instance.id`: this one can't come back."""


class GroupAuthorizationFailed(BrokerError):
    """This user may not use the group."""


class TopicAuthorizationFailed(BrokerError):
    """This user may not read a topic."""


class InvalidTopic(BrokerError):
    """An invalid topic name."""


class InvalidGroupId(BrokerError):
    """A group id that the cluster refuses."""


class GroupMaxSizeReached(BrokerError):
    """The group has as many members as the cluster allows."""


class InconsistentGroupProtocol(BrokerError):
    """The members of the group have no assignor in common, or a member sent an invalid subscription."""


class InvalidSessionTimeout(BrokerError):
    """`session.timeout.ms` is outside of what the broker allows."""


class OffsetMetadataTooLarge(BrokerError):
    """The metadata committed with an offset is longer than the broker allows."""


class UnknownTopicOrPartition(BrokerError):
    """A partition that the cluster doesn't have."""


class CorruptRecords(BrokerError):
    """The broker found that its copy of a partition is corrupt."""


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
