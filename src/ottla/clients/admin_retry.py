"""Administrative requests about several things at once: each has its own outcome, and only what failed for the moment
is asked for again.

Which answers are final for an administrator alone is decided here; the rest is `error_rules.py`'s.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, TypeVar

from ottla.clients.cluster import Cluster
from ottla.clients.error_rules import RETRIABLE
from ottla.clients.errors import BrokerError
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition

OPERATION_TIMEOUT_MS: Final = 30_000

# What a client that reads and writes would wait for is the answer that an administrator asked for.
_FINAL: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        # Perhaps it was done: to ask again might fail for that alone.
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
PASSING: Final = RETRIABLE - _FINAL

K = TypeVar("K")
R = TypeVar("R")


def ask_each(
    cluster: Cluster,
    keys: Iterable[K],
    attempt: Callable[[list[K]], Mapping[K, R | BrokerError]],
    *,
    passing: Container[int] = PASSING,
) -> dict[K, R | BrokerError]:
    """The outcome for each key. `attempt` gets the keys that are still open and answers for all of them."""
    wanted = list(dict.fromkeys(keys))
    outcomes: dict[K, R | BrokerError] = {}

    def is_passing(outcome: object) -> bool:
        return isinstance(outcome, BrokerError) and outcome.error_code in passing

    def once() -> None:
        left = [key for key in wanted if key not in outcomes or is_passing(outcomes[key])]
        if left:
            outcomes.update(attempt(left))
        for key in left:
            outcome = outcomes[key]
            if isinstance(outcome, BrokerError) and is_passing(outcome):
                raise outcome

    try:
        cluster.retry(once)
    except BrokerError as error:
        if not any(outcome is error for outcome in outcomes.values()):
            raise
        # The time is over; what did not pass by then is the outcome.
    return outcomes


def only(outcomes: Mapping[K, R | BrokerError]) -> R:
    """The result of a request about one thing, or its error raised."""
    (outcome,) = outcomes.values()
    if isinstance(outcome, BrokerError):
        raise outcome
    return outcome


def outcome_of(error_code: int, what: str, message: str | None, result: R) -> R | BrokerError:
    return result if error_code == ErrorCode.NONE else BrokerError(error_code, what, message)


def left_out(what: str) -> BrokerError:
    """For a key that the broker did not answer for."""
    return BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, what, "left out of the broker's answer")


def by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, as most requests want them."""
    grouped: dict[str, list[int]] = {}
    for topic_partition in topic_partitions:
        grouped.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return grouped


def by_leader(
    cluster: Cluster, topic_partitions: Iterable[TopicPartition]
) -> tuple[dict[BrokerId, list[TopicPartition]], dict[TopicPartition, BrokerError]]:
    """Partitions grouped by their leader in fresh metadata, and what is wrong with those that have none."""
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
