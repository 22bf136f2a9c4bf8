"""Which topics a consumer group reads, from what its members said when they joined."""

from ottla.coordinator.group import CONSUMER_PROTOCOL_TYPE, Group
from ottla.core.errors import ProtocolViolation
from ottla.protocol.codec import decode
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_VERSION_BYTES = 2


def is_subscribed(group: Group, topic: str) -> bool | None:
    """None where it can't be known: members of another kind, whose metadata are their own business.

    Of a consumer group whose members we can't read it is true: an offset too many does less harm than one too few.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    known = group.topics_at_mark
    if known is None or known[0] != group.mark:
        known = group.topics_at_mark = (group.mark, _topics(group))
    return known[1] is None or topic in known[1]


def _topics(group: Group) -> frozenset[str] | None:
    topics: set[str] = set()
    for member in group.members.values():
        # Version 0 is what every later version starts with, so we need not know them all.
        metadata = member.protocols.get(group.protocol or "", b"")[_VERSION_BYTES:]
        try:
            topics.update(decode(ConsumerProtocolSubscription, 0, metadata).topics)
        except ProtocolViolation:
            return None
    return frozenset(topics)
