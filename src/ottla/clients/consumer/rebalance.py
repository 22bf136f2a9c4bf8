"""The phases of a member in its group, and the events of a rebalance for the user's listener."""

from enum import Enum
from typing import NamedTuple

from ottla.core.types import TopicPartition


class Phase(Enum):
    OUT = "no member"
    UNJOINED = "to join"
    REVOKING = "revoking partitions"
    JOINING = "joining"
    SYNCING = "waiting for an assignment"
    ASSIGNING = "assigning partitions"
    STABLE = "member"


class EventKind(Enum):
    REVOKED = "revoked"
    LOST = "lost"  # without notice: another member may own them already
    ASSIGNED = "assigned"


class RebalanceEvent(NamedTuple):
    """An event for the listener; call `Group.finish` after it."""

    kind: EventKind
    topic_partitions: tuple[TopicPartition, ...]
