"""A cluster as plain values: brokers with their endpoints, topics with their partitions."""

from typing import Final, NamedTuple

from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch

# Where groups and their committed offsets are kept.
OFFSETS_TOPIC: Final = "__consumer_offsets"

# Only brokers write to them.
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state"})


NO_LEADER: Final[BrokerId] = -1


class BrokerEndpoint(NamedTuple):
    """The address of a broker for clients of one listener."""

    listener_name: str
    host: str
    port: int


class BrokerInfo(NamedTuple):
    """One live broker. Each registration of it has a larger epoch than the one before."""

    broker_id: BrokerId
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None
    epoch: BrokerEpoch = NO_BROKER_EPOCH

    def endpoint_for(self, listener_name: str) -> BrokerEndpoint | None:
        """The endpoint for clients of this listener."""
        for endpoint in self.endpoints:
            if endpoint.listener_name == listener_name:
                return endpoint
        return None


class PartitionState(NamedTuple):
    """What the coordination store says about a partition; leader -1 means that there is none.

    `version` is that of its node in the store: whoever changes the node names the version that it knows, so that of
    two changes only one comes true.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    version: int = 0


class TopicImage(NamedTuple):
    """One topic with its id (16 bytes), its own config entries, and its partitions by number."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: dict[int, PartitionState]
