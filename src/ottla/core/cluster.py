"""A cluster as plain values: brokers with their endpoints, topics with their partitions."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, Offset

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


class LossyReplica(NamedTuple):
    """A replica that had all that was committed, and what is left of it after its machine went down."""

    broker_id: BrokerId
    last_epoch: LeaderEpoch
    log_end_offset: Offset


class PartitionState(NamedTuple):
    """What the coordination store says about a partition; leader -1 means that there is none.

    `version` is that of its node in the store: whoever changes the node names the version that it knows, so that of
    two changes only one comes true. `eligible` and `lossy` have a node of their own, which changes with this one only.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    version: int = 0
    # Not in sync, but with all that is committed: while there are any, the high watermark stands still (KIP-966).
    eligible: tuple[BrokerId, ...] | None = None  # None: the node was never made
    lossy: tuple[LossyReplica, ...] = ()  # for the controller only


def eligible_after(state: PartitionState, isr: Sequence[BrokerId], *, min_isr: int) -> tuple[BrokerId, ...] | None:
    """Who is eligible when the in-sync replicas of `state` become `isr`, and nothing was lost: below the minimum,
    whoever leaves has all that is committed."""
    left: tuple[BrokerId, ...] = ()
    if len(isr) < min(min_isr, len(state.replicas)):
        had_all = dict.fromkeys((*state.isr, *(state.eligible or ())))
        left = tuple([replica for replica in had_all if replica in state.replicas and replica not in isr])
    return None if state.eligible is None and not left else left


class TopicImage(NamedTuple):
    """One topic with its id (16 bytes), its own config entries, and its partitions by number."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: dict[int, PartitionState]
