"""One term of a controller: from a won election to its resignation. Makes everything that controls, and ends it.

It takes the cluster over, then follows what happens: each part reacts to one kind of event and asks for elections.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ottla.controller.broadcast import Broadcast
from ottla.controller.broker_changes import BrokerChanges, suspicious
from ottla.controller.broker_channels import BrokerChannels
from ottla.controller.controlled_shutdown import ControlledShutdowns
from ottla.controller.deltas import (
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeletionStarted,
    TopicDelta,
)
from ottla.controller.election import ElectionResult
from ottla.controller.fenced_store import FencedStore
from ottla.controller.live_brokers import Brokers, LiveBrokers
from ottla.controller.node_removal import NodeRemoval
from ottla.controller.notifications import Notifications
from ottla.controller.partition_elections import PartitionElections
from ottla.controller.placement import PARTITIONS_MAX
from ottla.controller.ports import ControllerPorts
from ottla.controller.preferred_leaders import Balance, PreferredElectionNode
from ottla.controller.queue import EventQueue
from ottla.controller.replica_failures import ReplicaFailures
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.controller.take_over import Picture, TakeOver
from ottla.controller.topic_deletions import TopicDeletions
from ottla.controller.topic_watches import DeletionNotes, TopicWatches
from ottla.controller.topics import Topics
from ottla.controller.tree_loader import TreeError
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Result, Store
from ottla.core.cluster import BrokerInfo, PartitionState, TopicImage
from ottla.core.config.current import CurrentConfig
from ottla.core.control import ControlAnswer, ControlRequest, LeaderAndIsr, StopReplicas
from ottla.core.types import NO_LEADER_EPOCH, BrokerId, TopicPartition

_LOG = logging.getLogger("ottla.controller")

_LED_AT_ONCE_MAX = 1_000  # partitions whose nodes are made with their topic, some 300 KB
_EARLY_CHANGES_MAX = 10_000  # of topics that nobody ever creates


class Alone(NamedTuple):
    """A broker whose store nobody else writes: what it has loaded for itself is the cluster, and is served already."""

    broker: BrokerInfo
    images: Collection[TopicImage]


class Surroundings(NamedTuple):
    """What all terms of one broker have in common."""

    store: Store
    ports: ControllerPorts
    current: CurrentConfig
    broker_id: BrokerId
    topics: Topics
    stored_configs: Callable[[], StoredBrokerConfigs]
    ignores_case: Callable[[], bool]
    # The controller's own broker uses a topic's config at once; others hear of it by the note in the store.
    on_topic_configs: Callable[[str, dict[str, str]], None]


class ControllerTerm:
    """Made by `Controller` for each election that it wins; an `Applier` for the queue of its term."""

    def __init__(
        self,
        around: Surroundings,
        elected: ElectionResult,
        *,
        on_ready: Callable[["ControllerTerm"], None],
        on_over: Callable[[str], None],
    ) -> None:
        """`on_over` is called with the reason why this broker can't go on as the controller; it then calls `close`."""
        self._around = around
        self.epoch = elected.epoch
        self.epoch_version = elected.epoch_version
        self._on_ready = on_ready
        self._on_over = on_over
        self._store = FencedStore(
            around.store,
            around.ports.call_later,
            epoch_version=elected.epoch_version,
            on_fenced=lambda: on_over("another broker has raised the controller's epoch, or the session ended"),
        )
        self._watches = TopicWatches(self._store)
        self._take_over = TakeOver(self._store, self._watches, self._on_picture)
        self._live_brokers = LiveBrokers(self._store, self._on_brokers)
        self._is_alone = False
        self._is_made = False
        self._latest_brokers: Brokers = {}
        # Partitions that their leaders changed before this controller knew of them: their creation is on its way.
        self._early_changes: dict[TopicPartition, None] = {}
        self._sends = False  # not before the elections of the take-over are done: all of it is one picture

    def take_over(self, alone: Alone | None) -> None:
        if alone is not None:
            self._is_alone = True
            images = {image.name: image for image in alone.images}
            brokers = {alone.broker.broker_id: alone.broker}
            self._store.children(
                paths.DELETE_TOPICS, lambda noted: self._on_picture(Picture(brokers, images, noted.children))
            )
        else:
            self._live_brokers.start()
            self._take_over.start()

    def close(self) -> None:
        """Nothing is written, sent or called back any more, but for the refusals of whoever waits."""
        self._store.close()
        if self._is_made:
            self.balance.close()
            self.queue.close()
            self.elections.close()
            self.shutdowns.close()
            self.deletions.close()
            self.broadcast.close()

    def apply(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        """What the queue has decided and written; the state has it already."""
        if isinstance(delta, TopicDeletionStarted):
            self._broadcast(delta, lambda: None)
            self._delete(self.state.topics[delta.topic], on_applied)
            return
        if isinstance(delta, TopicConfigChanged):
            self._around.on_topic_configs(delta.topic, delta.configs)
        # Brokers may have gone since it was decided, and of topics found in the tree nobody leads a partition yet.
        if isinstance(delta, TopicCreated):
            self._add(delta, delta.image.name, delta.image.partitions, on_applied)
        elif isinstance(delta, PartitionsAdded):
            self._add(delta, delta.topic, delta.partitions, on_applied)
        else:
            self._broadcast(delta, on_applied)

    def _add(
        self,
        delta: TopicDelta,
        topic: str,
        added: Mapping[int, PartitionState],
        on_applied: Callable[[], None],
    ) -> None:
        partitions = [TopicPartition(topic, partition) for partition in added]
        is_led = all(state.leader_epoch != NO_LEADER_EPOCH for state in added.values())
        self._broadcast(delta, on_applied if is_led else lambda: None)
        self.elections.want(partitions)
        if not is_led:
            self.elections.when_idle(lambda: self._on_led(partitions, on_applied), on_applied)
        early = self._early_changes
        if early:
            self.elections.refresh([found for found in partitions if early.pop(found, found) is None])

    def _delete(self, image: TopicImage, on_deleted: Callable[[], None]) -> None:
        def on_files_gone() -> None:
            # The store of a broker alone takes all of it in one transaction, and knows no node but its own.
            if self._is_alone or self._store.is_closed:
                on_deleted()
            else:
                NodeRemoval(self._store, image.name, on_deleted).start()

        self.deletions.start(image, on_files_gone)

    def _on_led(self, partitions: list[TopicPartition], on_applied: Callable[[], None]) -> None:
        states = [self.state.partition(topic_partition) for topic_partition in partitions]
        self.broadcast.when_led([state for state in states if state is not None], on_applied)

    def _broadcast(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        if self._sends:
            self.broadcast.apply(delta, on_applied)
        else:
            on_applied()

    def _on_picture(self, picture: Picture | TreeError) -> None:
        if self._store.is_closed:
            return
        if isinstance(picture, TreeError):
            self._on_over(str(picture))
            return
        self._make_parts(picture)
        for broker in picture.brokers.values():
            self.channels.open(broker)
        self._around.topics.use(self.queue)
        self.deletion_notes.take_up(picture.noted_deletions)
        self.elections.want(suspicious(self.state))
        self.elections.when_idle(self._on_elected)

    def _make_parts(self, picture: Picture) -> None:
        around = self._around
        self.state = state = ClusterState(
            picture.images.values(),
            around.stored_configs(),
            brokers=picture.brokers.values(),
            ignores_case=around.ignores_case(),
        )
        self.channels = BrokerChannels(
            around.ports,
            controller_id=around.broker_id,
            controller_epoch=self.epoch,
            live_brokers=lambda: tuple(state.brokers.values()),
            on_answer=self._on_answer,
        )
        self.broadcast = Broadcast(state, self.channels, broker_id=around.broker_id)
        self.elections = PartitionElections(
            self._store,
            state,
            around.current,
            around.ports,
            controller_epoch=self.epoch,
            apply=self._apply_elected,
        )
        self.deletions = TopicDeletions(state, self.broadcast, around.topics.on_deletion_waiting)
        self.queue = EventQueue(
            self._store,
            state,
            self,
            around.current,
            random_bytes=around.ports.random_bytes,
            live_brokers=state.live_brokers,
            controller_epoch=lambda: self.epoch,
            led_at_once_max=PARTITIONS_MAX if self._is_alone else _LED_AT_ONCE_MAX,
        )
        self.brokers = BrokerChanges(state, self.elections, self.broadcast, self.deletions)
        self.shutdowns = ControlledShutdowns(state, self.elections, self.broadcast)
        self.failures = ReplicaFailures(state, self.elections, self.broadcast)
        self.balance = Balance(state, self.elections, around.current, around.ports)
        self.deletion_notes = DeletionNotes(self._store, around.topics, around.current)
        self._is_made = True

    def _apply_elected(self, delta: TopicDelta) -> None:
        self.state.apply(delta)
        self._broadcast(delta, lambda: None)

    def _on_elected(self) -> None:
        """Everything that can be led is led: brokers hear of it, and requests are served."""
        self._sends = True
        if not self._is_alone:
            self.broadcast.send_picture(list(self.state.brokers))
            self._watches.start(self.queue)
            self.deletion_notes.start()
            self.brokers.on_brokers(self._latest_brokers)
            Notifications(self._store, paths.ISR_CHANGE_NOTIFICATION, self._on_isr_changes).start()
            Notifications(self._store, paths.LOG_DIR_EVENT_NOTIFICATION, self.failures.on_notifications).start()
            PreferredElectionNode(self._store, self.elections).start()
            self.balance.start()
        self._on_ready(self)

    def _on_brokers(self, brokers: Brokers) -> None:
        self._latest_brokers = brokers
        if self._sends:
            self.brokers.on_brokers(brokers)
        elif not self._is_made:
            self._take_over.on_brokers(brokers)

    def _on_isr_changes(self, found: list[Result]) -> None:
        changed: dict[TopicPartition, None] = {}
        for result in found:
            try:
                changed.update(dict.fromkeys(paths.decode_partition_set(result.path, result.value)))
            except MalformedNodeError as error:
                _LOG.error("%s", error)
        self.elections.refresh([found for found in changed if self.state.partition(found) is not None])
        if len(self._early_changes) < _EARLY_CHANGES_MAX:
            self._early_changes.update({found: None for found in changed if found.topic not in self.state.topics})

    def _on_answer(self, broker_id: BrokerId, request: ControlRequest, answer: ControlAnswer) -> None:
        if answer.error_code:
            _LOG.warning("broker %d refused a %s: %s", broker_id, type(request).__name__, answer.error_code.name)
        if isinstance(request, LeaderAndIsr):
            self.failures.on_answer(broker_id, request, answer)
        elif isinstance(request, StopReplicas):
            self.deletions.on_answer(broker_id, request, answer)
