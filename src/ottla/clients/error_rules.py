"""What an error code means for a client: whether it is retriable, and what to look up before a retry.

One table for producer, consumer and admin. A code that is not in it is final and makes nothing stale.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from ottla.core.errors import ErrorCode


class Stale(Enum):
    """The client's state that an error shows to be out of date."""

    NOTHING = "nothing"
    METADATA = "who leads a partition, or where it is"
    COORDINATOR = "who coordinates a group or a transaction"
    CONTROLLER = "who the controller is"
    FETCH_SESSION = "what the broker remembers of earlier fetches"


# The cluster is electing, starting, catching up or busy: the same request may succeed later.
_RETRIABLE: Final[Mapping[int, Stale]] = {
    ErrorCode.CORRUPT_MESSAGE: Stale.NOTHING,
    ErrorCode.REQUEST_TIMED_OUT: Stale.NOTHING,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Stale.NOTHING,
    ErrorCode.NOT_ENOUGH_REPLICAS: Stale.NOTHING,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Stale.NOTHING,
    ErrorCode.OFFSET_NOT_AVAILABLE: Stale.NOTHING,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Stale.NOTHING,
    ErrorCode.CONCURRENT_TRANSACTIONS: Stale.NOTHING,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: Stale.NOTHING,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Stale.METADATA,
    ErrorCode.LEADER_NOT_AVAILABLE: Stale.METADATA,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Stale.METADATA,
    ErrorCode.REPLICA_NOT_AVAILABLE: Stale.METADATA,
    ErrorCode.KAFKA_STORAGE_ERROR: Stale.METADATA,
    ErrorCode.FENCED_LEADER_EPOCH: Stale.METADATA,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Stale.METADATA,
    ErrorCode.UNKNOWN_TOPIC_ID: Stale.METADATA,
    ErrorCode.INCONSISTENT_TOPIC_ID: Stale.METADATA,
    ErrorCode.LISTENER_NOT_FOUND: Stale.METADATA,
    ErrorCode.NETWORK_EXCEPTION: Stale.METADATA,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: Stale.METADATA,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: Stale.METADATA,
    ErrorCode.ELECTION_NOT_NEEDED: Stale.METADATA,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Stale.COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Stale.COORDINATOR,
    ErrorCode.NOT_CONTROLLER: Stale.CONTROLLER,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: Stale.FETCH_SESSION,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: Stale.FETCH_SESSION,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: Stale.FETCH_SESSION,
}

RETRIABLE: Final = frozenset(_RETRIABLE)
STALE_METADATA: Final = frozenset(code for code, stale in _RETRIABLE.items() if stale is Stale.METADATA)
STALE_COORDINATOR: Final = frozenset(code for code, stale in _RETRIABLE.items() if stale is Stale.COORDINATOR)
# Of coordinators: it moved, is loading its partition, or waits for replicas or for another request.
COORDINATOR_RETRIABLE: Final = RETRIABLE - STALE_METADATA | {
    ErrorCode.NETWORK_EXCEPTION,
    # Its topic is not created yet, or its log is offline.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
