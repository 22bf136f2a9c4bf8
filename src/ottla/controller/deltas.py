"""What changed in the cluster: values that name topics, partitions and their states, and nothing that can be called.

The controller makes a delta of a decision that the store has taken, applies it to its own state, and hands it to the
brokers: `broadcast.py` makes control requests of it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ottla.core.cluster import BrokerInfo, PartitionState, TopicImage
from ottla.core.types import BrokerId, TopicPartition


class TopicCreated(NamedTuple):
    """A topic that was not there."""

    image: TopicImage


class PartitionsAdded(NamedTuple):
    """A topic has these partitions besides those that it had."""

    topic: str
    partitions: Mapping[int, PartitionState]


class PartitionsChanged(NamedTuple):
    """Partitions that were there have another leader, or other in-sync replicas.

    `by_leaders`: their leaders wrote it themselves, in their own epoch, so that only clients have to learn of it.
    """

    partitions: Mapping[TopicPartition, PartitionState]
    by_leaders: bool = False


class TopicConfigChanged(NamedTuple):
    """All entries that a topic has now."""

    topic: str
    configs: dict[str, str]


class TopicDeletionStarted(NamedTuple):
    """A topic is deleted with all of these partitions; clients must not see it any more."""

    topic: str
    partitions: tuple[int, ...]


class TopicDeleted(NamedTuple):
    """Nothing is left of a topic, and its name is free."""

    topic: str


class BrokerConfigsChanged(NamedTuple):
    """All dynamic entries of this broker, and of all brokers."""

    per_broker: Mapping[str, str]
    cluster_wide: Mapping[str, str]


class BrokersChanged(NamedTuple):
    """Brokers that registered, and brokers whose registration is gone. One that did both is named in two deltas."""

    came: tuple[BrokerInfo, ...] = ()
    went: tuple[BrokerId, ...] = ()


TopicDelta: TypeAlias = (
    TopicCreated | PartitionsAdded | PartitionsChanged | TopicConfigChanged | TopicDeletionStarted | TopicDeleted
)
Delta: TypeAlias = TopicDelta | BrokerConfigsChanged


class Applier(Protocol):
    """A broker's side: carries out there what was decided."""

    def apply(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        """Called in the order of the decisions; calls `on_applied` when it is done, perhaps before this returns."""
        ...


def with_partitions(image: TopicImage, added: Mapping[int, PartitionState]) -> TopicImage:
    """The topic after `PartitionsAdded`."""
    return image._replace(partitions={**image.partitions, **added})
