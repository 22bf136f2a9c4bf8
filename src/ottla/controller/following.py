"""What a controller follows in a store that others write, too: brokers, topics, notifications, requests of tools.

A broker alone on its own store has none of it.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.controller.broker_changes import BrokerChanges
from ottla.controller.controlled_shutdown import ControlledShutdowns
from ottla.controller.fenced_store import FencedStore
from ottla.controller.live_brokers import Brokers, LiveBrokers
from ottla.controller.notifications import Notifications
from ottla.controller.picture import Picture
from ottla.controller.preferred_leaders import Balance, PreferredElectionNode
from ottla.controller.take_over import TakeOver
from ottla.controller.topic_watches import TopicWatches
from ottla.controller.tree_loader import TreeError
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Result
from ottla.core.types import TopicPartition

if TYPE_CHECKING:
    from ottla.controller.term import ControllerTerm

_LOG = logging.getLogger("ottla.controller")

_EARLY_CHANGES_MAX = 10_000  # of topics that nobody ever creates


class Following:
    """Owned by one term of the controller: reads the tree for the take-over, and from `start` on follows it."""

    def __init__(self, store: FencedStore, on_picture: Callable[[Picture | TreeError], None]) -> None:
        self._store = store
        self._watches = TopicWatches(store)
        self._take_over = TakeOver(store, self._watches, on_picture)
        self._live_brokers = LiveBrokers(store, self._on_brokers)
        self._latest_brokers: Brokers = {}
        self._term: ControllerTerm | None = None
        # Partitions that their leaders changed before this controller knew of them: their creation is on its way.
        self._early_changes: dict[TopicPartition, None] = {}

    def read(self) -> None:
        self._live_brokers.start()
        self._take_over.start()

    def start(self, term: "ControllerTerm") -> None:
        """The take-over is done; what happened since it was read comes now."""
        self._term = term
        state, parts, around = term.state, term.parts, term.around
        elections, broadcast = parts.elections, parts.broadcast
        self._brokers = BrokerChanges(state, elections, broadcast, parts.deletions)
        self.shutdowns = ControlledShutdowns(state, elections, broadcast)
        self._balance = Balance(state, elections, around.current, around.ports)
        self._watches.start(term.queue)
        parts.deletion_notes.start()
        self._brokers.on_brokers(self._latest_brokers)
        Notifications(self._store, paths.ISR_CHANGE_NOTIFICATION, self._on_isr_changes).start()
        Notifications(self._store, paths.LOG_DIR_EVENT_NOTIFICATION, parts.failures.on_notifications).start()
        PreferredElectionNode(self._store, elections).start()
        self._balance.start()

    def close(self) -> None:
        if self._term is not None:
            self._balance.close()
            self.shutdowns.close()

    def on_added(self, partitions: list[TopicPartition]) -> None:
        """The controller knows these now."""
        early = self._early_changes
        if early and self._term is not None:
            self._term.parts.elections.refresh([found for found in partitions if early.pop(found, found) is None])

    def on_deleted(self, topic: str) -> None:
        """The controller has finished the topic's deletion."""
        if self._term is not None:
            self._watches.on_deleted(topic)

    def _on_brokers(self, brokers: Brokers) -> None:
        self._latest_brokers = brokers
        if self._term is None:
            self._take_over.on_brokers(brokers, self._live_brokers.registered_at)
        else:
            self._brokers.on_brokers(brokers)

    def _on_isr_changes(self, found: list[Result]) -> None:
        assert self._term is not None
        state = self._term.state
        changed: dict[TopicPartition, None] = {}
        for result in found:
            try:
                changed.update(dict.fromkeys(paths.decode_partition_set(result.path, result.value)))
            except MalformedNodeError as error:
                _LOG.error("%s", error)
        self._term.parts.elections.refresh([known for known in changed if state.partition(known) is not None])
        if len(self._early_changes) < _EARLY_CHANGES_MAX:
            self._early_changes.update({early: None for early in changed if early.topic not in state.topics})
