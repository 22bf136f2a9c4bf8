"""The cluster as the store has it: topics with their configs and partitions, and what brokers' configs were set to.

One `ClusterState`, owned by the controller's queue. Decisions read it; only `apply` changes it, with what is in the
store already. Whatever else knows something of topics (local replicas, the metadata cache) follows the same deltas.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.controller.deltas import (
    BrokerConfigsChanged,
    Delta,
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeletionStarted,
    with_partitions,
)
from ottla.controller.topic_names import metric_name
from ottla.core.cluster import TopicImage


class StoredBrokerConfigs(NamedTuple):
    """The entries for one broker and for all of them, as the store has them."""

    per_broker: Mapping[str, str]
    cluster_wide: Mapping[str, str]


class ClusterState:
    """What every decision is made on; event loop only."""

    def __init__(
        self, images: Iterable[TopicImage], broker_configs: StoredBrokerConfigs, *, ignores_case: bool = False
    ) -> None:
        """`ignores_case`: the log directories' file system takes `A` and `a` for one name."""
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

    def collision_with(self, name: str) -> str | None:
        """Another topic that metrics or the file system can't tell from one of this name."""
        for taken in self._names_of(name):
            other = self._taken_names.get(taken, name)
            if other != name:
                return other
        return None

    def apply(self, delta: Delta) -> None:
        if isinstance(delta, TopicCreated):
            self._put_new(delta.image)
        elif isinstance(delta, PartitionsAdded):
            self.topics[delta.topic] = with_partitions(self.topics[delta.topic], delta.partitions)
        elif isinstance(delta, TopicConfigChanged):
            self.topics[delta.topic] = self.topics[delta.topic]._replace(configs=delta.configs)
        elif isinstance(delta, TopicDeletionStarted):
            self.being_deleted.add(delta.topic)
        elif isinstance(delta, BrokerConfigsChanged):
            self.broker_configs = StoredBrokerConfigs(*delta)
        else:
            self._remove(delta.topic)

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
