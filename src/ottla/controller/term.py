"""One term of a controller: from a won election to its resignation. Makes everything that controls, and ends it.

It takes the cluster over, then carries out what the queue and the elections decide. What happens outside reaches it
through `Following`, unless its broker is alone.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.controller.deltas import (
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicDeletionStarted,
    TopicDelta,
)
from ottla.controller.election import ElectionResult
from ottla.controller.fenced_store import FencedStore
from ottla.controller.picture import Picture
from ottla.controller.placement import PARTITIONS_MAX
from ottla.controller.queue import EventQueue
from ottla.controller.state import ClusterState
from ottla.controller.surroundings import Surroundings
from ottla.controller.tree_loader import TreeError
from ottla.coordination import paths
from ottla.core.cluster import BrokerInfo, PartitionState, TopicImage
from ottla.core.control import (
    ControlAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    ControlRequest,
    LeaderAndIsr,
    StopReplicas,
)
from ottla.core.types import NO_LEADER_EPOCH, BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.controller.following import Following
    from ottla.controller.term_parts import TermParts

_LOG = logging.getLogger("ottla.controller")

_LED_AT_ONCE_MAX = 1_000  # partitions whose nodes are made with their topic, some 300 KB


class Alone(NamedTuple):
    """A broker whose store nobody else writes: what it has loaded for itself is the cluster, and is served already."""

    broker: BrokerInfo
    images: Collection[TopicImage]


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
        self.around = around
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
        self._following: Following | None = None
        self._state: ClusterState | None = None
        self._parts: TermParts | None = None
        self._sends = False  # not before the elections of the take-over are done: all of it is one picture

    @property
    def state(self) -> ClusterState:
        """There is none before the tree is read."""
        assert self._state is not None
        return self._state

    @property
    def parts(self) -> "TermParts":
        if self._parts is None:
            from ottla.controller.term_parts import make_parts

            self._parts = make_parts(
                self.around,
                self._store,
                self.state,
                epoch=self.epoch,
                apply=self._apply_elected,
                on_answer=self._on_answer,
            )
        return self._parts

    def take_over(self, alone: Alone | None) -> None:
        if alone is None:
            from ottla.controller.following import Following

            self._following = Following(self._store, self._on_picture)
            self._following.read()
            return
        self._sends = True  # it needs no picture, only what is different from now on
        images = {image.name: image for image in alone.images}
        brokers = {alone.broker.broker_id: alone.broker}
        self._store.children(
            paths.DELETE_TOPICS, lambda noted: self._on_picture(Picture(brokers, images, noted.children))
        )

    def close(self) -> None:
        """Nothing is written, sent or called back any more, but for the refusals of whoever waits."""
        self._store.close()
        if self._state is not None:
            self.queue.close()
        if self._parts is not None:
            self._parts.elections.close()
            if self._following is not None:
                self._following.close()
            self._parts.deletions.close()
            self._parts.broadcast.close()

    def controlled_shutdown(
        self, request: ControlledShutdown, on_answer: Callable[[ControlledShutdownAnswer], None]
    ) -> None:
        if self._following is None:
            on_answer(ControlledShutdownAnswer())  # there is nobody to take anything over
        else:
            self._following.shutdowns.handle(request, on_answer)

    def apply(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        """What the queue has decided and written; the state has it already."""
        if isinstance(delta, TopicDeletionStarted):
            self._broadcast(delta, lambda: None)
            self._delete(self.state.topics[delta.topic], on_applied)
        elif isinstance(delta, TopicCreated):
            self._add(delta, delta.image.name, delta.image.partitions, on_applied)
        elif isinstance(delta, PartitionsAdded):
            self._add(delta, delta.topic, delta.partitions, on_applied)
        else:
            if isinstance(delta, TopicConfigChanged):
                self.around.on_topic_configs(delta.topic, delta.configs)
            elif isinstance(delta, TopicDeleted) and self._following is not None:
                self._following.on_deleted(delta.topic)
            self._broadcast(delta, on_applied)

    def _add(
        self, delta: TopicDelta, topic: str, added: Mapping[int, PartitionState], on_applied: Callable[[], None]
    ) -> None:
        """Brokers may have gone since it was decided, and of topics found in the tree nobody leads a partition yet."""
        elections = self.parts.elections
        partitions = [TopicPartition(topic, partition) for partition in added]
        is_led = all(state.leader_epoch != NO_LEADER_EPOCH for state in added.values())
        self._broadcast(delta, on_applied if is_led else lambda: None)
        elections.want(partitions)
        if not is_led:
            elections.when_idle(lambda: self._on_led(partitions, on_applied), on_applied)
        if self._following is not None:
            self._following.on_added(partitions)

    def _on_led(self, partitions: list[TopicPartition], on_applied: Callable[[], None]) -> None:
        states = [self.state.partition(topic_partition) for topic_partition in partitions]
        self.parts.broadcast.when_led([state for state in states if state is not None], on_applied)

    def _delete(self, image: TopicImage, on_deleted: Callable[[], None]) -> None:
        def on_files_gone() -> None:
            # The store of a broker alone takes all of it in one transaction, and has no node but the broker's own.
            if self._following is None or self._store.is_closed:
                on_deleted()
                return
            from ottla.controller.node_removal import NodeRemoval

            NodeRemoval(self._store, image.name, on_deleted).start()

        self.parts.deletions.start(image, on_files_gone)

    def _broadcast(self, delta: TopicDelta, on_applied: Callable[[], None]) -> None:
        if self._sends:
            self.parts.broadcast.apply(delta, on_applied)
        else:
            on_applied()

    def _on_picture(self, picture: Picture | TreeError) -> None:
        if self._store.is_closed:
            return
        if isinstance(picture, TreeError):
            self._on_over(str(picture))
            return
        around = self.around
        state = self._state = ClusterState(
            picture.images.values(),
            around.stored_configs(),
            brokers=picture.brokers.values(),
            ignores_case=around.ignores_case(),
        )
        self.queue = EventQueue(
            self._store,
            state,
            self,
            around.current,
            random_bytes=around.ports.random_bytes,
            live_brokers=state.live_brokers,
            controller_epoch=lambda: self.epoch,
            led_at_once_max=PARTITIONS_MAX if self._following is None else _LED_AT_ONCE_MAX,
        )
        around.topics.use(self.queue)
        if not picture.noted_deletions:
            self._elect_first(state)
        elif self._following is None:  # all that they wait for is this broker
            self.parts.deletion_notes.take_up(picture.noted_deletions, lambda: self._elect_first(state))
        else:
            self.parts.deletion_notes.take_up(picture.noted_deletions)
            self._elect_first(state)

    def _elect_first(self, state: ClusterState) -> None:
        """The elections of the take-over."""
        suspicious = state.suspicious_partitions()
        if suspicious or self._following is not None:
            self.parts.elections.want(suspicious)
            self.parts.elections.when_idle(self._on_elected)
        else:
            self._on_elected()

    def _apply_elected(self, delta: TopicDelta) -> None:
        self.state.apply(delta)
        self._broadcast(delta, lambda: None)

    def _on_elected(self) -> None:
        """Everything that can be led is led: brokers hear of it, and requests are served."""
        self._sends = True
        if self._following is not None:
            self.parts.broadcast.send_picture(list(self.state.brokers))
            self._following.start(self)
        self._on_ready(self)

    def _on_answer(self, broker_id: BrokerId, request: ControlRequest, answer: ControlAnswer) -> None:
        if answer.error_code:
            _LOG.warning("broker %d refused a %s: %s", broker_id, type(request).__name__, answer.error_code.name)

        if isinstance(request, LeaderAndIsr):
            self.parts.failures.on_answer(broker_id, request, answer)
        elif isinstance(request, StopReplicas):
            self.parts.deletions.on_answer(broker_id, request, answer)
