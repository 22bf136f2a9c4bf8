"""Admin requests about several things at once: each has its own outcome, and only retriable failures are retried.

This file decides which errors are final for administrators only; `error_rules.py` has the rest.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, TypeVar

from ottla.clients.cluster import Cluster
from ottla.clients.error_rules import RETRIABLE
from ottla.clients.errors import BrokerError
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition

OPERATION_TIMEOUT_MS: Final = 30_000

# Producers and consumers would wait; for an administrator this is the answer.
_FINAL: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        # Perhaps it was done: then a retry would fail because of that.
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
RETRIABLE_FOR_ADMINS: Final = RETRIABLE - _FINAL

K = TypeVar("K")
R = TypeVar("R")


def ask_each(
    cluster: Cluster,
    keys: Iterable[K],
    attempt: Callable[[list[K]], Mapping[K, R | BrokerError]],
    *,
    retriable: Container[int] = RETRIABLE_FOR_ADMINS,
) -> dict[K, R | BrokerError]:
    """The outcome of each key. `attempt` gets the keys without an outcome and returns one for each."""
    wanted = list(dict.fromkeys(keys))
    outcomes: dict[K, R | BrokerError] = {}

    def is_retriable(outcome: object) -> bool:
        return isinstance(outcome, BrokerError) and outcome.error_code in retriable

    def once() -> None:
        left = [key for key in wanted if key not in outcomes or is_retriable(outcomes[key])]
        if left:
            outcomes.update(attempt(left))
        for key in left:
            outcome = outcomes[key]
            if isinstance(outcome, BrokerError) and is_retriable(outcome):
                raise outcome

    try:
        cluster.retry(once)
    except BrokerError as error:
        if not any(outcome is error for outcome in outcomes.values()):
            raise
        # The time is over: the last error is the outcome.
    return outcomes


def only(outcomes: Mapping[K, R | BrokerError]) -> R:
    """The result of a request about one thing; raises its error."""
    (outcome,) = outcomes.values()
    if isinstance(outcome, BrokerError):
        raise outcome
    return outcome


def outcome_of(error_code: int, what: str, message: str | None, result: R) -> R | BrokerError:
    return result if error_code == ErrorCode.NONE else BrokerError(error_code, what, message)


def left_out(what: str) -> BrokerError:
    """The error for a key that is missing in the broker's answer."""
    return BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, what, "left out of the broker's answer")


def by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions grouped by topic, as most requests have them."""
    grouped: dict[str, list[int]] = {}
    for topic_partition in topic_partitions:
        grouped.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return grouped


def by_leader(
    cluster: Cluster, topic_partitions: Iterable[TopicPartition]
) -> tuple[dict[BrokerId, list[TopicPartition]], dict[TopicPartition, BrokerError]]:
    """Partitions grouped by their leader in new metadata, and the errors of those that have none."""
    wanted = list(topic_partitions)
    cluster.refresh(sorted({topic_partition.topic for topic_partition in wanted}))
    grouped: dict[BrokerId, list[TopicPartition]] = {}
    failures: dict[TopicPartition, BrokerError] = {}
    for topic_partition in wanted:
        partitions = cluster.partitions_of(topic_partition.topic)
        leader_id = cluster.leader_of(topic_partition)
        if topic_partition.partition not in partitions:
            message = f"the topic has {len(partitions)} partitions" if partitions else "no such topic"
            failures[topic_partition] = BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {topic_partition}", message
            )
        elif leader_id not in cluster.brokers:
            failures[topic_partition] = BrokerError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"partition {topic_partition}", "no leader now"
            )
        else:
            grouped.setdefault(leader_id, []).append(topic_partition)
    return grouped, failures
