"""Where a member stands in its group, and what its user must be told of a rebalance."""

from enum import Enum
from typing import NamedTuple

from ottla.core.types import TopicPartition


class Phase(Enum):
    OUT = "no member"
    UNJOINED = "to join"
    REVOKING = "the user gives partitions up"
    JOINING = "joining"
    SYNCING = "waiting for an assignment"
    ASSIGNING = "the user takes partitions"
    STABLE = "member"


class EventKind(Enum):
    REVOKED = "revoked"
    LOST = "lost"  # without having been asked: they may be another's already
    ASSIGNED = "assigned"


class RebalanceEvent(NamedTuple):
    """What the listener is to be told; `Group.finish` when it was."""

    kind: EventKind
    topic_partitions: tuple[TopicPartition, ...]
