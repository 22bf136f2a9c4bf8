"""What changed in the cluster: values that name topics, partitions and their states, and nothing that can be called.

The controller makes a delta of a decision that the store has taken, applies it to its own state, and hands it to the
brokers. A delta has all that a broker needs to know, so it could be sent over a connection.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from ottla.core.cluster import PartitionState, TopicImage


class TopicCreated(NamedTuple):
    """A topic that was not there."""

    image: TopicImage


class PartitionsAdded(NamedTuple):
    """A topic has these partitions besides those that it had."""

    topic: str
    partitions: Mapping[int, PartitionState]


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


TopicDelta: TypeAlias = TopicCreated | PartitionsAdded | TopicConfigChanged | TopicDeletionStarted | TopicDeleted
Delta: TypeAlias = TopicDelta | BrokerConfigsChanged


class Applier(Protocol):
    """A broker's side: carries out there what was decided."""

    def apply(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        """Called in the order of the decisions; calls `on_applied` when it is done, perhaps before this returns."""
        ...


def with_partitions(image: TopicImage, added: Mapping[int, PartitionState]) -> TopicImage:
    """The topic after `PartitionsAdded`."""
    return image._replace(partitions={**image.partitions, **added})
