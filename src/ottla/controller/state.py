"""The cluster as the store has it: live brokers, topics with their configs and partitions, and what brokers' configs
were set to.

One `ClusterState`, owned by the controller's queue. Decisions read it; only `apply` changes it, with what is in the
store already. Whatever else knows something of topics (local replicas, the metadata cache) follows the same deltas.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.controller.deltas import (
    BrokerConfigsChanged,
    BrokersChanged,
    Delta,
    PartitionsAdded,
    PartitionsChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeletionStarted,
    with_partitions,
)
from ottla.controller.topic_names import metric_name
from ottla.core.cluster import BrokerInfo, PartitionState, TopicImage
from ottla.core.types import BrokerId, TopicPartition


class StoredBrokerConfigs(NamedTuple):
    """The entries for one broker and for all of them, as the store has them."""

    per_broker: Mapping[str, str]
    cluster_wide: Mapping[str, str]


class ClusterState:
    """What every decision is made on; event loop only."""

    def __init__(
        self,
        images: Iterable[TopicImage],
        broker_configs: StoredBrokerConfigs,
        *,
        brokers: Iterable[BrokerInfo] = (),
        ignores_case: bool = False,
    ) -> None:
        """`ignores_case`: the log directories' file system takes `A` and `a` for one name."""
        self.brokers: dict[BrokerId, BrokerInfo] = {broker.broker_id: broker for broker in brokers}  # those that live
        self.shutting_down: set[BrokerId] = set()  # of these: asked to go, lead nothing that others can lead
        self._offline_replicas: dict[BrokerId, set[TopicPartition]] = {}  # in log directories that failed
        self.topics: dict[str, TopicImage] = {}  # also those that are being deleted
        self.being_deleted: set[str] = set()
        self.broker_configs = broker_configs
        self._ignores_case = ignores_case
        self._taken_names: dict[str, str] = {}  # in metrics and on disk, with the topic that has each
        for image in images:
            self._put_new(image)

    def find(self, name: str) -> TopicImage | None:
        """The topic, unless it is being deleted."""
        return None if name in self.being_deleted else self.topics.get(name)

    def partition(self, topic_partition: TopicPartition) -> PartitionState | None:
        """The partition, unless its topic is being deleted."""
        image = self.find(topic_partition.topic)
        return None if image is None else image.partitions.get(topic_partition.partition)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """All partitions, but for those of topics that are being deleted."""
        for name, image in self.topics.items():
            if name not in self.being_deleted:
                for partition, state in image.partitions.items():
                    yield TopicPartition(name, partition), state

    def suspicious_partitions(self) -> list[TopicPartition]:
        """Those without a live leader, or with a dead broker among the in-sync replicas."""
        live = frozenset(self.brokers)
        found = []
        for name, image in self.topics.items():
            if name not in self.being_deleted:
                for partition, state in image.partitions.items():
                    if state.leader not in live or not live.issuperset(state.isr):
                        found.append(TopicPartition(name, partition))
        return found

    def live_brokers(self) -> list[BrokerId]:
        """Those that may get new replicas and leaders."""
        return sorted(broker_id for broker_id in self.brokers if broker_id not in self.shutting_down)

    def is_online(self, broker_id: BrokerId, topic_partition: TopicPartition) -> bool:
        """Whether the replica can lead or follow, and will go on to."""
        if broker_id not in self.brokers or broker_id in self.shutting_down:
            return False
        offline = self._offline_replicas.get(broker_id)
        return offline is None or topic_partition not in offline

    def note_replica(self, broker_id: BrokerId, topic_partition: TopicPartition, *, is_offline: bool) -> bool:
        """What a broker says of one of its replicas; whether that is news."""
        offline = self._offline_replicas.setdefault(broker_id, set())
        if (topic_partition in offline) == is_offline:
            return False
        if is_offline:
            offline.add(topic_partition)
        else:
            offline.discard(topic_partition)
        return True

    def has_offline_replicas(self, broker_id: BrokerId) -> bool:
        return bool(self._offline_replicas.get(broker_id))

    def collision_with(self, name: str) -> str | None:
        """Another topic that metrics or the file system can't tell from one of this name."""
        for taken in self._names_of(name):
            other = self._taken_names.get(taken, name)
            if other != name:
                return other
        return None

    def apply(self, delta: Delta | BrokersChanged) -> None:
        if isinstance(delta, TopicCreated):
            self._put_new(delta.image)
        elif isinstance(delta, PartitionsAdded):
            self.topics[delta.topic] = with_partitions(self.topics[delta.topic], delta.partitions)
        elif isinstance(delta, PartitionsChanged):
            self._change_partitions(delta.partitions)
        elif isinstance(delta, TopicConfigChanged):
            self.topics[delta.topic] = self.topics[delta.topic]._replace(configs=delta.configs)
        elif isinstance(delta, TopicDeletionStarted):
            self.being_deleted.add(delta.topic)
        elif isinstance(delta, BrokersChanged):
            self._change_brokers(delta)
        elif isinstance(delta, BrokerConfigsChanged):
            self.broker_configs = StoredBrokerConfigs(*delta)
        else:
            self._remove(delta.topic)

    def _change_partitions(self, changed: Mapping[TopicPartition, PartitionState]) -> None:
        by_topic: dict[str, dict[int, PartitionState]] = {}
        for (name, partition), state in changed.items():
            by_topic.setdefault(name, {})[partition] = state
        for name, states in by_topic.items():
            image = self.topics.get(name)
            if image is not None:  # else its deletion was finished meanwhile
                self.topics[name] = with_partitions(image, states)

    def _change_brokers(self, delta: BrokersChanged) -> None:
        for broker_id in delta.went:
            self.brokers.pop(broker_id, None)
            self.shutting_down.discard(broker_id)
            self._offline_replicas.pop(broker_id, None)
        for broker in delta.came:
            self.brokers[broker.broker_id] = broker

    def _put_new(self, image: TopicImage) -> None:
        self.topics[image.name] = image
        for taken in self._names_of(image.name):
            self._taken_names[taken] = image.name

    def _remove(self, name: str) -> None:
        del self.topics[name]
        self.being_deleted.discard(name)
        for taken in self._names_of(name):
            if self._taken_names.get(taken) == name:
                del self._taken_names[taken]

    def _names_of(self, name: str) -> list[str]:
        names = [metric_name(name)]
        if self._ignores_case:
            names.append("/" + name.lower())  # its folders; no metric has a slash
        return names
