"""Error messages: what a broker's error code means for the user of a command, and what to do about it."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import click

from ottla.clients.errors import BrokerError, OperationFailed
from ottla.core.errors import ErrorCode

K = TypeVar("K")
R = TypeVar("R")

_ADVICE: Final[Mapping[int, str]] = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or add --if-not-exists",
    ErrorCode.NON_EMPTY_GROUP: "the group has members; stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members by now; stop them first",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group has members by now; stop them first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read this topic; stop them first",
    ErrorCode.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true on the brokers",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ask for the right to do this, or use another user",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "ask for the right to do this, or use another user",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ask for the right to do this, or use another user",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the cluster has no coordinator for it now; try again, and check the brokers",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader now; check the brokers that hold it",
    ErrorCode.REQUEST_TIMED_OUT: "it may still happen; look before trying again",
}


def worded(error: BrokerError) -> str:
    advice = _ADVICE.get(error.error_code)
    return f"{error}; {advice}" if advice else str(error)


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing if no known name is similar."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""


def fail(message: str) -> None:
    """One failure of several: the command goes on, and ends with exit code 1."""
    click.echo(f"Error: {message}", err=True)


def split_outcomes(operation: Callable[[], Mapping[K, R]]) -> tuple[dict[K, R], dict[K, BrokerError]]:
    """The successes and the failures of an admin operation on several things."""
    try:
        return dict(operation()), {}
    except OperationFailed as failed:
        done = {key: outcome for key, outcome in failed.outcomes.items() if key not in failed.failures}
        return done, failed.failures


def failures_of(operation: Callable[[], None]) -> dict[Any, BrokerError]:
    """The failures of an operation without results."""
    try:
        operation()
    except OperationFailed as failed:
        return failed.failures
    return {}
