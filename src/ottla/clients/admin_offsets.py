"""Offsets of partitions (first, last, by time) and committed offsets of groups."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.clients.admin_groups import ask_coordinators
from ottla.clients.admin_retry import (
    OPERATION_TIMEOUT_MS,
    RETRIABLE_FOR_ADMINS,
    ask_each,
    by_leader,
    by_topic,
    left_out,
    only,
    outcome_of,
)
from ottla.clients.cluster import Cluster, ClusterBroker
from ottla.clients.error_rules import STALE_COORDINATOR
from ottla.clients.errors import BrokerError
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, LeaderEpoch, Offset, TimestampMs, TopicPartition
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

NO_OFFSET: Final[Offset] = -1
# From version 10 on these two have topic ids; but an offset may be of a topic that no longer exists.
_FETCH_VERSIONS: Final = (2, 9)
_COMMIT_VERSIONS: Final = (2, 9)


class ListedOffset(NamedTuple):
    """NO_OFFSET if no record is at or after the time."""

    offset: Offset
    timestamp_ms: TimestampMs
    leader_epoch: LeaderEpoch


class CommittedOffset(NamedTuple):
    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str


def list_each_offset(
    cluster: Cluster, topic_partitions: Iterable[TopicPartition], timestamp_ms: int, *, waits_for_leaders: bool = True
) -> dict[TopicPartition, ListedOffset | BrokerError]:
    """The first offset at or after a time; EARLIEST and LATEST of `topics.py` are the ends of the log.

    It does not wait until a partition without a leader has one again.
    """

    def attempt(left: list[TopicPartition]) -> dict[TopicPartition, ListedOffset | BrokerError]:
        led, failures = by_leader(cluster, left)
        outcomes: dict[TopicPartition, ListedOffset | BrokerError] = {
            topic_partition: left_out(str(topic_partition)) for topic_partition in left
        }
        outcomes.update(failures)
        for broker_id, asked in led.items():
            topics = [
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(partition_index=partition, timestamp=timestamp_ms)
                        for partition in partitions
                    ],
                )
                for name, partitions in by_topic(asked).items()
            ]
            request = ListOffsetsRequest(replica_id=-1, topics=topics, timeout_ms=OPERATION_TIMEOUT_MS)
            for topic in cluster.broker(broker_id).request(request, ListOffsetsResponse).topics:
                for result in topic.partitions:
                    topic_partition = TopicPartition(topic.name, result.partition_index)
                    found = ListedOffset(result.offset, result.timestamp, result.leader_epoch)
                    outcomes[topic_partition] = outcome_of(
                        result.error_code, f"offsets of partition {topic_partition}", None, found
                    )
        return outcomes

    retriable = RETRIABLE_FOR_ADMINS if waits_for_leaders else RETRIABLE_FOR_ADMINS - {ErrorCode.LEADER_NOT_AVAILABLE}
    return ask_each(cluster, topic_partitions, attempt, retriable=retriable)


def fetch_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    """All committed offsets of a group; none for a group that doesn't exist."""

    def ask(
        broker: ClusterBroker, broker_id: BrokerId, asked: list[str]
    ) -> dict[str, dict[TopicPartition, CommittedOffset] | BrokerError]:
        request = OffsetFetchRequest(
            group_id=group_id, topics=None, groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)]
        )
        answer = broker.request(request, OffsetFetchResponse, versions=_FETCH_VERSIONS)
        what = f"committed offsets of group {group_id}"
        found: dict[TopicPartition, CommittedOffset] = {}
        topics: list[tuple[str, Sequence[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]]
        if answer.groups:  # from version 8 on
            (group,) = answer.groups
            error_code = group.error_code
            topics = [(topic.name, topic.partitions) for topic in group.topics]
        else:
            error_code = answer.error_code
            topics = [(topic.name, topic.partitions) for topic in answer.topics]
        if error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            return {group_id: BrokerError(error_code, what)}
        for name, partitions in topics:
            for partition in partitions:
                topic_partition = TopicPartition(name, partition.partition_index)
                if partition.error_code != ErrorCode.NONE:
                    return {group_id: BrokerError(partition.error_code, f"{what} in {topic_partition}")}
                if partition.committed_offset >= 0:
                    found[topic_partition] = CommittedOffset(
                        partition.committed_offset, partition.committed_leader_epoch, partition.metadata or ""
                    )
        return {group_id: found}

    return only(ask_coordinators(cluster, [group_id], ask))


def commit_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, BrokerError | None]:
    """Set the offsets of a group that has no members; an active group answers UNKNOWN_MEMBER_ID."""

    def ask(
        broker: ClusterBroker, broker_id: BrokerId, asked: list[str]
    ) -> dict[str, dict[TopicPartition, BrokerError | None] | BrokerError]:
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offsets[TopicPartition(name, partition)]
                    )
                    for partition in partitions
                ],
            )
            for name, partitions in by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(group_id=group_id, topics=topics)
        what = f"group {group_id}: setting the offset of"
        outcomes: dict[TopicPartition, BrokerError | None] = {
            topic_partition: left_out(f"{what} {topic_partition}") for topic_partition in offsets
        }
        for topic in broker.request(request, OffsetCommitResponse, versions=_COMMIT_VERSIONS).topics:
            for result in topic.partitions:
                topic_partition = TopicPartition(topic.name, result.partition_index)
                outcomes[topic_partition] = outcome_of(result.error_code, f"{what} {topic_partition}", None, None)
        return {group_id: _whole_if_moved(outcomes)}

    return only(ask_coordinators(cluster, [group_id], ask))


def delete_offsets(
    cluster: Cluster, group_id: str, topic_partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, BrokerError | None]:
    """Delete committed offsets of a group; refused for topics that its members are subscribed to."""
    wanted = list(topic_partitions)

    def ask(
        broker: ClusterBroker, broker_id: BrokerId, asked: list[str]
    ) -> dict[str, dict[TopicPartition, BrokerError | None] | BrokerError]:
        topics = [
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=partition) for partition in partitions],
            )
            for name, partitions in by_topic(wanted).items()
        ]
        answer = broker.request(OffsetDeleteRequest(group_id=group_id, topics=topics), OffsetDeleteResponse)
        what = f"group {group_id}: deleting the offset of"
        if answer.error_code != ErrorCode.NONE:
            return {group_id: BrokerError(answer.error_code, f"group {group_id}: deleting offsets")}
        outcomes: dict[TopicPartition, BrokerError | None] = {
            topic_partition: left_out(f"{what} {topic_partition}") for topic_partition in wanted
        }
        for topic in answer.topics:
            for result in topic.partitions:
                topic_partition = TopicPartition(topic.name, result.partition_index)
                outcomes[topic_partition] = outcome_of(result.error_code, f"{what} {topic_partition}", None, None)
        return {group_id: outcomes}

    return only(ask_coordinators(cluster, [group_id], ask))


def _whole_if_moved(
    outcomes: dict[TopicPartition, BrokerError | None],
) -> dict[TopicPartition, BrokerError | None] | BrokerError:
    """A coordinator that moved or is loading refuses every partition: then the whole request is retried."""
    errors = list(outcomes.values())
    first = errors[0] if errors else None
    moved = STALE_COORDINATOR | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    if first is not None and first.error_code in moved:
        return first
    return outcomes
