"""The broker's picture of the cluster: what Metadata answers from, and where handlers look topics up.

It follows the controller's decisions: `LocalTopics` hands each UpdateMetadata on. Handlers read it; event loop only.
"""

from collections.abc import Iterable

from ottla.coordination.paths import NO_TOPIC_ID
from ottla.core.cluster import BrokerEndpoint, BrokerInfo, TopicImage
from ottla.core.control import UpdateMetadata
from ottla.core.types import BrokerId
from ottla.protocol.message import EncodedStruct


class MetadataCache:
    """Live brokers, the controller, and topics by name and by id."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.controller_id: BrokerId = -1
        self.brokers: dict[BrokerId, BrokerInfo] = {}
        self.topics: dict[str, TopicImage] = {}
        self._names_by_id: dict[bytes, str] = {}
        self._encoded: dict[tuple[int, ...], dict[str, EncodedStruct]] = {}

    def encoded_topics(self, *form: int) -> dict[str, EncodedStruct]:
        """Where a handler keeps topics in the form of its answers (API key, version, ...), by name.

        An entry is gone when its topic changes, all of them when the brokers do.
        """
        encoded = self._encoded.get(form)
        if encoded is None:
            encoded = self._encoded[form] = {}
        return encoded

    def update(self, request: UpdateMetadata) -> list[TopicImage]:
        """Take what the controller sends; the topics that are gone since, also those that another has replaced."""
        self.controller_id = request.stamp.controller_id
        if tuple(self.brokers.values()) != request.brokers:
            self.put_brokers(request.brokers)
        gone = [self.topics[name] for name in request.deleted if name in self.topics]
        if request.is_full:
            named = {image.name for image in request.topics}
            gone += [image for name, image in self.topics.items() if name not in named]
        for image in gone:
            self.remove_topic(image.name)
        for image in request.topics:
            known = self.topics.get(image.name)
            if known is None:
                self.put_topic(image)
            elif known.topic_id != image.topic_id:
                gone.append(known)
                self.put_topic(image)
            elif request.is_full:
                self.put_topic(image._replace(configs=known.configs))
            else:
                self.put_topic(known._replace(partitions={**known.partitions, **image.partitions}))
        return gone

    def put_topic(self, image: TopicImage) -> None:
        """Add a topic or replace what is known of it."""
        replaced = self.topics.get(image.name)
        if replaced is not None:
            self._names_by_id.pop(replaced.topic_id, None)
            self._forget_encoded(image.name)
        self.topics[image.name] = image
        if image.topic_id != NO_TOPIC_ID:  # an older Kafka made it, which had no ids
            self._names_by_id[image.topic_id] = image.name

    def remove_topic(self, name: str) -> None:
        image = self.topics.pop(name, None)
        if image is not None:
            self._names_by_id.pop(image.topic_id, None)
            self._forget_encoded(name)

    def _forget_encoded(self, name: str) -> None:
        for encoded in self._encoded.values():
            encoded.pop(name, None)

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names_by_id.get(topic_id)

    def brokers_on(self, listener_name: str) -> list[tuple[BrokerInfo, BrokerEndpoint]]:
        """The live brokers that clients of this listener can reach, and where."""
        found = ((broker, broker.endpoint_for(listener_name)) for broker in self.brokers.values())
        return [(broker, endpoint) for broker, endpoint in found if endpoint is not None]

    def put_broker(self, broker: BrokerInfo) -> None:
        """One live broker, besides the others."""
        self.put_brokers({**self.brokers, broker.broker_id: broker}.values())

    def put_brokers(self, brokers: Iterable[BrokerInfo]) -> None:
        """Replace the set of live brokers."""
        self.brokers = {broker.broker_id: broker for broker in brokers}
        self._encoded.clear()
