"""What sends, elects and deletes during one term of a controller.

A broker alone makes it when something is to be done for the first time.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.controller.broadcast import Broadcast
from ottla.controller.broker_channels import BrokerChannels
from ottla.controller.deletion_notes import DeletionNotes
from ottla.controller.deltas import TopicDelta
from ottla.controller.fenced_store import FencedStore
from ottla.controller.partition_elections import PartitionElections
from ottla.controller.replica_failures import ReplicaFailures
from ottla.controller.state import ClusterState
from ottla.controller.surroundings import Surroundings
from ottla.controller.topic_deletions import TopicDeletions
from ottla.core.control import ControlAnswer, ControlRequest
from ottla.core.types import BrokerId, ControllerEpoch


class TermParts(NamedTuple):
    """Owned by the term."""

    channels: BrokerChannels
    broadcast: Broadcast
    elections: PartitionElections
    deletions: TopicDeletions
    failures: ReplicaFailures
    deletion_notes: DeletionNotes


def make_parts(
    around: Surroundings,
    store: FencedStore,
    state: ClusterState,
    *,
    epoch: ControllerEpoch,
    apply: Callable[[TopicDelta], None],
    on_answer: Callable[[BrokerId, ControlRequest, ControlAnswer], None],
) -> TermParts:
    """With a channel to each live broker."""
    channels = BrokerChannels(
        around.ports,
        controller_id=around.broker_id,
        controller_epoch=epoch,
        live_brokers=lambda: tuple(state.brokers.values()),
        on_answer=on_answer,
    )
    for broker in state.brokers.values():
        channels.open(broker)
    broadcast = Broadcast(state, channels, broker_id=around.broker_id)
    elections = PartitionElections(store, state, around.current, around.ports, controller_epoch=epoch, apply=apply)
    return TermParts(
        channels,
        broadcast,
        elections,
        TopicDeletions(state, broadcast, around.topics.on_deletion_waiting),
        ReplicaFailures(state, elections, broadcast),
        DeletionNotes(store, around.topics, around.current),
    )
