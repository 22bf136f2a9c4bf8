"""Why nothing was done about a topic: an error code of the wire with its reason in words."""

from typing import NamedTuple

from ottla.coordination.store import Code, Result
from ottla.core.errors import ErrorCode


class TopicFault(NamedTuple):
    """Why nothing was done."""

    error_code: ErrorCode
    message: str


def topic_exists(name: str) -> TopicFault:
    return TopicFault(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")


def unknown_topic(name: str) -> TopicFault:
    return TopicFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")


def unknown_partition(name: str, index: int) -> TopicFault:
    return TopicFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} has no partition {index}")


def fault_of_store(name: str, result: Result) -> TopicFault:
    """What the coordination store said instead of yes."""
    if result.code == Code.NODE_EXISTS:
        return topic_exists(name)
    return TopicFault(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"topic {name!r}: the coordination store said {result.code.name} {result.detail}",
    )
