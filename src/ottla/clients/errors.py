"""What can go wrong between a client and its cluster, as exceptions that say what was tried and on what.

An error code in an answer is a value until a caller decides that it ends the operation; then it becomes `BrokerError`.
"""

from collections.abc import Mapping
from typing import Any, Final

from ottla.core.errors import ErrorCode
from ottla.links.errors import (
    ClientClosed,
    ClientError,
    ConnectionFailed,
    RequestTimedOut,
    TimedOut,
    UnsupportedByBroker,
    error_name,
)

__all__ = [
    "RETRIABLE",
    "BrokerError",
    "ClientClosed",
    "ClientError",
    "ConnectionFailed",
    "OperationFailed",
    "RequestTimedOut",
    "TimedOut",
    "UnsupportedByBroker",
    "check",
    "error_name",
]

# Answers after which the same request may succeed: the cluster is busy electing, starting or catching up.
RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)


class BrokerError(ClientError):
    """The cluster answered with an error code that ends the operation."""

    def __init__(self, error_code: int, what: str, message: str | None = None) -> None:
        self.error_code = error_code
        self.message = message  # of the broker
        super().__init__(f"{what}: {error_name(error_code)}" + (f" ({message})" if message else ""))

    @property
    def is_retriable(self) -> bool:
        return self.error_code in RETRIABLE


class OperationFailed(BrokerError):
    """Of the things asked for, one or more failed. `outcomes` has every result or error; the code is the first's."""

    def __init__(self, outcomes: Mapping[Any, Any], failures: Mapping[Any, BrokerError]) -> None:
        first = next(iter(failures.values()))
        others = f"; {len(failures) - 1} more failed" if len(failures) > 1 else ""
        ClientError.__init__(self, f"{first}{others}")
        self.error_code = first.error_code
        self.message = first.message
        self.outcomes = dict(outcomes)
        self.failures = dict(failures)


def check(error_code: int, what: str, message: str | None = None) -> None:
    """Raise BrokerError unless the code says that all went well."""
    if error_code != ErrorCode.NONE:
        raise BrokerError(error_code, what, message)
