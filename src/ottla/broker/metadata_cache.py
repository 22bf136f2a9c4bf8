"""The broker's picture of the cluster: what Metadata answers from, and where handlers look topics up.

Written by the controller's decisions as they are applied, read by handlers; event loop only.
"""

from collections.abc import Iterable

from ottla.coordination.paths import NO_TOPIC_ID
from ottla.core.cluster import BrokerInfo, TopicImage
from ottla.core.types import BrokerId


class MetadataCache:
    """Live brokers, the controller, and topics by name and by id."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.controller_id: BrokerId = -1
        self.brokers: dict[BrokerId, BrokerInfo] = {}
        self.topics: dict[str, TopicImage] = {}
        self._names_by_id: dict[bytes, str] = {}

    def put_topic(self, image: TopicImage) -> None:
        """Add a topic or replace what is known of it."""
        replaced = self.topics.get(image.name)
        if replaced is not None:
            self._names_by_id.pop(replaced.topic_id, None)
        self.topics[image.name] = image
        if image.topic_id != NO_TOPIC_ID:  # an older Kafka made it, which had no ids
            self._names_by_id[image.topic_id] = image.name

    def remove_topic(self, name: str) -> None:
        image = self.topics.pop(name, None)
        if image is not None:
            self._names_by_id.pop(image.topic_id, None)

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names_by_id.get(topic_id)

    def put_brokers(self, brokers: Iterable[BrokerInfo]) -> None:
        """Replace the set of live brokers."""
        self.brokers = {broker.broker_id: broker for broker in brokers}
