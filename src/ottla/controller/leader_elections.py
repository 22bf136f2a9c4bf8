"""What becomes of a request to elect a partition's leader. Pure: looks at an image and who is alive, changes nothing.

No leadership changes hands here yet, so an election ends with the reason why there was none.
"""

from collections.abc import Collection
from enum import IntEnum

from ottla.controller.topic_faults import TopicFault, unknown_partition, unknown_topic
from ottla.core.cluster import TopicImage
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId


class ElectionType(IntEnum):
    """Which leader is wanted, with the codes of the protocol."""

    PREFERRED = 0  # the first replica of the assignment
    UNCLEAN = 1  # any replica, if there is no leader otherwise: what only the lost one had is lost


def decide_election(
    image: TopicImage | None, name: str, partition: int, election_type: ElectionType, *, able: Collection[BrokerId]
) -> TopicFault:
    """`able` are the brokers that are alive with a replica of this partition that works."""
    if image is None:
        return unknown_topic(name)
    state = image.partitions.get(partition)
    if state is None:
        return unknown_partition(name, partition)
    has_leader = state.leader in able
    if election_type == ElectionType.UNCLEAN:
        if has_leader:
            return _not_needed(f"{name}-{partition}: broker {state.leader} leads it")
        return TopicFault(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"{name}-{partition}: no broker can take it over, its replicas are on {list(state.replicas)}",
        )
    preferred = state.replicas[0] if state.replicas else None
    if has_leader and state.leader == preferred:
        return _not_needed(f"{name}-{partition}: its preferred leader, broker {preferred}, leads it")
    return TopicFault(
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        f"{name}-{partition}: broker {preferred}, its preferred leader, can't take it over",
    )


def _not_needed(message: str) -> TopicFault:
    return TopicFault(ErrorCode.ELECTION_NOT_NEEDED, message)
