"""Whether topics exist and how many partitions they have, asked once and clearly before any record moves."""

import time
from collections.abc import Iterable
from typing import Final

from ottla.clients.cluster import Cluster
from ottla.clients.errors import ClientError
from ottla.clients.topics import wait_for_leaders
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_CREATION_WAIT_MS: Final = 2_000
_LOOK_INTERVAL_MS: Final = 50


class NoSuchTopic(ClientError):
    """A topic that is not there, and is not made by asking for it."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} does not exist; `ottla topics create {topic}` makes it")


def count_partitions(cluster: Cluster, topics: Iterable[str], *, may_create: bool = False) -> dict[str, int]:
    """The number of partitions of each topic, all of them with a leader.

    With `may_create` the question is asked in the way that makes a broker create a topic
    (`auto.create.topics.enable`); some answer that before the topic is there, so it is looked for a while.
    """
    names = sorted(set(topics))
    cluster.retry(lambda: cluster.refresh(names))
    missing = [name for name in names if name not in cluster.topics]
    if missing and may_create:
        asked = [MetadataRequestTopic(name=name) for name in missing]
        cluster.ask_any(MetadataRequest(topics=asked, allow_auto_topic_creation=True), MetadataResponse)
        deadline = time.monotonic() + _CREATION_WAIT_MS / 1000
        while missing and time.monotonic() < deadline:
            cluster.refresh(names)
            missing = [name for name in names if name not in cluster.topics]
            if missing:
                time.sleep(_LOOK_INTERVAL_MS / 1000)
    if missing:
        raise NoSuchTopic(missing[0])
    wait_for_leaders(cluster, names)
    return {name: len(cluster.topics[name]) for name in names}
