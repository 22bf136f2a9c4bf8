"""Whether topics exist and how many partitions they have, checked once before any record moves."""

from collections.abc import Iterable
from typing import Final

from ottla.clients.admin import Admin
from ottla.clients.errors import ClientError, OperationFailed, TimedOut
from ottla.clients.producer.producer import Producer
from ottla.core.errors import ErrorCode

# A broker that creates topics automatically has done so by then.
_CREATION_WAIT_MS: Final = 2_000


class NoSuchTopic(ClientError):
    """A topic that doesn't exist, and that the broker doesn't create automatically."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} does not exist; `ottla topics create {topic}` creates it")


def count_partitions(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """The number of partitions of each topic; NoSuchTopic for the first missing one."""
    names = sorted(set(topics))
    try:
        found = admin.describe_topics(names)
    except OperationFailed as failed:
        for name in names:
            error = failed.failures.get(name)
            if error is not None and error.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise NoSuchTopic(name) from failed
        raise
    return {name: len(found[name].partitions) for name in names}


def count_partitions_or_create(producer: Producer, admin: Admin, topic: str) -> int:
    """A producer's metadata request makes a broker create a topic (`auto.create.topics.enable`)."""
    try:
        return len(producer.partitions_for(topic, timeout_ms=_CREATION_WAIT_MS))
    except TimedOut:
        if topic not in admin.list_topics():
            raise NoSuchTopic(topic) from None
        return len(producer.partitions_for(topic))  # it is there by now, or the cluster is slow
