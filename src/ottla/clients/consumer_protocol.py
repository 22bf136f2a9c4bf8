"""What the members of a consumer group tell each other through their coordinator: subscriptions and assignments.

The coordinator passes these bytes on unread. Each begins with its version; a newer one than we know is read as ours.
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

PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = Struct(">h")
_SUBSCRIPTION_VERSION: Final = 1  # owned partitions, and nothing that eager assignors need beyond
_ASSIGNMENT_VERSION: Final = 1


def encode_subscription(topics: Iterable[str]) -> bytes:
    """With no owned partitions: an eager member gives all up before it joins."""
    subscription = ConsumerProtocolSubscription(topics=sorted(topics))
    return _VERSION.pack(_SUBSCRIPTION_VERSION) + encode(subscription, _SUBSCRIPTION_VERSION)


def decode_member(member_id: str, instance_id: str | None, metadata: bytes) -> GroupMemberView:
    version = _version_of(metadata, ConsumerProtocolSubscription.VERSIONS[1])
    subscription = decode(ConsumerProtocolSubscription, version, metadata[_VERSION.size :])
    return GroupMemberView(member_id, frozenset(subscription.topics), instance_id)


def encode_assignment(places: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(place.partition)
    assigned = [AssignedTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return _VERSION.pack(_ASSIGNMENT_VERSION) + encode(message, _ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """No bytes at all mean no partitions: a leader may leave a member out."""
    if not data:
        return []
    version = _version_of(data, ConsumerProtocolAssignment.VERSIONS[1])
    message = decode(ConsumerProtocolAssignment, version, data[_VERSION.size :])
    return [TopicPartition(each.topic, number) for each in message.assigned_partitions for number in each.partitions]


def _version_of(data: bytes, newest: int) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolViolation(f"consumer protocol: {len(data)} bytes, a version expected")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolViolation(f"consumer protocol: version {version}")
    return min(version, newest)
