"""The messages between members of a consumer group: subscriptions and assignments.

The coordinator passes these bytes on unread. Each begins with its version; we read a newer version as our newest.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from ottla.clients.assignors import GroupMemberView
from ottla.core.errors import ProtocolViolation
from ottla.core.types import TopicPartition
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic

PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = Struct(">h")
_SUBSCRIPTION_VERSION: Final = 3  # owned partitions, the generation of them, the rack
_ASSIGNMENT_VERSION: Final = 1


def encode_subscription(
    topics: Iterable[str],
    *,
    owned: Iterable[TopicPartition] = (),
    generation_id: int = -1,
    user_data: bytes | None = None,
    rack_id: str | None = None,
) -> bytes:
    """An eager member owns nothing when it joins: it has revoked everything before."""
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=numbers) for topic, numbers in numbers_by_topic(owned).items()
        ],
        generation_id=generation_id,
        rack_id=rack_id,
    )
    return _VERSION.pack(_SUBSCRIPTION_VERSION) + encode(subscription, _SUBSCRIPTION_VERSION)


def decode_member(member_id: str, instance_id: str | None, metadata: bytes) -> GroupMemberView:
    version = _version_of(metadata, ConsumerProtocolSubscription.VERSIONS[1])
    subscription = decode(ConsumerProtocolSubscription, version, metadata[_VERSION.size :])
    return GroupMemberView(
        member_id,
        frozenset(subscription.topics),
        instance_id,
        tuple(
            TopicPartition(each.topic, number) for each in subscription.owned_partitions for number in each.partitions
        ),
        subscription.generation_id,
        subscription.user_data or b"",
    )


def encode_assignment(topic_partitions: Iterable[TopicPartition]) -> bytes:
    assigned = [
        AssignedTopic(topic=topic, partitions=partitions)
        for topic, partitions in numbers_by_topic(topic_partitions).items()
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return _VERSION.pack(_ASSIGNMENT_VERSION) + encode(message, _ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Empty bytes mean no partitions: a leader may leave a member out."""
    if not data:
        return []
    version = _version_of(data, ConsumerProtocolAssignment.VERSIONS[1])
    message = decode(ConsumerProtocolAssignment, version, data[_VERSION.size :])
    return [TopicPartition(each.topic, number) for each in message.assigned_partitions for number in each.partitions]


def numbers_by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic_partition in topic_partitions:
        topics.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return topics


def _version_of(data: bytes, newest: int) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolViolation(f"consumer protocol: {len(data)} bytes, a version expected")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolViolation(f"consumer protocol: version {version}")
    return min(version, newest)
