"""What one broker has still to be sent, gathered until its turn comes: then it becomes at most three requests.

They go out in Kafka's order: who leads and follows, what clients see, what stops. A later state of a partition replaces
an earlier one that was not sent yet, so a broker that does not answer costs no more than the cluster's size.
"""

from collections.abc import Callable, Iterable, Mapping

from ottla.core.cluster import BrokerInfo, PartitionState, TopicImage
from ottla.core.control import (
    ControlRequest,
    ControlStamp,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrTopic,
    StoppedReplica,
    StopReplicas,
    UpdateMetadata,
)
from ottla.core.types import TopicPartition


class ControlBatch:
    """Owned by one channel until it is sent."""

    __slots__ = (
        "_deleted",
        "_is_full",
        "_leaders",
        "_shown",
        "_stopped",
        "_stopped_topics",
        "_updates_metadata",
        "when_applied",
    )

    def __init__(self) -> None:
        self._leaders: dict[str, tuple[TopicImage, dict[int, LeaderAndIsrPartition]]] = {}  # by topic
        self._shown: dict[str, tuple[TopicImage, dict[int, PartitionState]]] = {}
        self._deleted: dict[str, None] = {}
        self._stopped: dict[TopicPartition, StoppedReplica] = {}
        self._stopped_topics: set[str] = set()
        self._updates_metadata = False
        self._is_full = False
        # Called when the broker follows and shows what this batch says, or is gone.
        self.when_applied: list[Callable[[], None]] = []

    @property
    def is_empty(self) -> bool:
        return not (self._leaders or self._updates_metadata or self._stopped or self._is_full or self.when_applied)

    def conflicts_with(self, topic: str) -> bool:
        """Whether the topic is stopped or hidden by this batch, so that what comes of it now belongs into the next."""
        return topic in self._deleted or topic in self._stopped_topics

    def fill(
        self, leaders: Iterable[tuple[TopicImage, dict[int, LeaderAndIsrPartition]]], shown: Iterable[TopicImage]
    ) -> None:
        """The full picture for a broker that was sent nothing so far."""
        self._is_full = True
        self._updates_metadata = True
        for image, partitions in leaders:
            self._leaders[image.name] = (image, partitions)
        for image in shown:
            self._shown[image.name] = (image, image.partitions)

    def lead(self, image: TopicImage, partition: int, state: PartitionState, *, is_new: bool) -> None:
        found = self._leaders.get(image.name)
        partitions = {} if found is None else found[1]
        earlier = partitions.get(partition)
        if earlier is not None:
            is_new = is_new or earlier.is_new  # the broker has not heard of it yet
        partitions[partition] = LeaderAndIsrPartition(partition, state, is_new)
        self._leaders[image.name] = (image, partitions)

    def show(self, image: TopicImage, partitions: Mapping[int, PartitionState]) -> None:
        self._updates_metadata = True
        found = self._shown.get(image.name)
        self._shown[image.name] = (image, dict(partitions) if found is None else {**found[1], **partitions})

    def use_configs(self, topic: str, configs: dict[str, str]) -> None:
        """They have changed since the topic was added."""
        led = self._leaders.get(topic)
        if led is not None:
            self._leaders[topic] = (led[0]._replace(configs=configs), led[1])
        shown = self._shown.get(topic)
        if shown is not None:
            self._shown[topic] = (shown[0]._replace(configs=configs), shown[1])

    def show_brokers(self) -> None:
        """All live brokers, as they are when it is sent."""
        self._updates_metadata = True

    def hide(self, topic: str) -> None:
        self._updates_metadata = True
        self._deleted[topic] = None
        self._shown.pop(topic, None)
        self._leaders.pop(topic, None)

    def stop(self, replica: StoppedReplica) -> None:
        self._stopped[replica.topic_partition] = replica
        self._stopped_topics.add(replica.topic_partition.topic)

    def first_requests(self, stamp: ControlStamp, brokers: tuple[BrokerInfo, ...]) -> list[ControlRequest]:
        """What has to be answered before the batch counts as applied."""
        requests: list[ControlRequest] = []
        if self._leaders or self._is_full:
            topics = [
                LeaderAndIsrTopic(image.name, image.topic_id, image.configs, tuple(partitions.values()))
                for image, partitions in self._leaders.values()
            ]
            requests.append(LeaderAndIsr(stamp, tuple(topics), self._is_full))
        if self._updates_metadata:
            shown = tuple([image._replace(partitions=partitions) for image, partitions in self._shown.values()])
            requests.append(UpdateMetadata(stamp, brokers, shown, tuple(self._deleted), self._is_full))
        return requests

    def last_requests(self, stamp: ControlStamp) -> list[ControlRequest]:
        return [StopReplicas(stamp, tuple(self._stopped.values()))] if self._stopped else []
