"""Why nothing was done about a topic: an error code of the wire with its reason in words.

The words are Kafka's wherever it has some, here and in all of `controller/`: scripts look for them.
"""

from typing import NamedTuple

from ottla.coordination.store import Code, Result
from ottla.core.errors import ErrorCode

# Instead of the store's answer, for whoever waits when this broker's term as the controller ends.
NO_CONTROLLER = Result(Code.SESSION_EXPIRED, "", detail="this broker does not control the cluster any more")


class TopicFault(NamedTuple):
    """Why nothing was done."""

    error_code: ErrorCode
    message: str


def topic_exists(name: str) -> TopicFault:
    return TopicFault(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def unknown_topic(name: str) -> TopicFault:
    return TopicFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")


def not_hosted() -> TopicFault:
    """As `unknown_topic`, where Kafka does not name the topic once more."""
    return TopicFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def unknown_partition(name: str, partition: int) -> TopicFault:
    return TopicFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{partition}")


def not_controller() -> TopicFault:
    return TopicFault(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")


def fault_of_store(name: str, result: Result) -> TopicFault:
    """The coordination store's refusal as a fault."""
    if result.code == Code.NODE_EXISTS:
        return topic_exists(name)
    if result is NO_CONTROLLER:
        return not_controller()
    return TopicFault(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"topic {name!r}: the coordination store said {result.code.name} {result.detail}",
    )
