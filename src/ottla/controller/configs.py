"""Configs of topics and brokers for handlers: looked up in the controller's state, changed through its queue.

Clients send changes to any broker. As in Kafka, one that does not control writes them itself (`own_configs.py`).
"""

from collections.abc import Callable

from ottla.controller.config_changes import BrokerConfigChange, TopicConfigChange, find_topic
from ottla.controller.config_edits import ConfigChange, ConfigFault
from ottla.controller.config_notes import ConfigNotes
from ottla.controller.queue import Done, EventQueue
from ottla.controller.state import StoredBrokerConfigs
from ottla.core.cluster import TopicImage
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId

OnDone = Callable[[ConfigFault | None], None]

ALL_BROKERS = ""  # the name of the resource whose entries hold for every broker


class Configs:
    """What handlers ask the controller about configs; event loop only."""

    def __init__(self, queue_for: Callable[[str], EventQueue], notes: ConfigNotes, *, broker_id: BrokerId) -> None:
        """`queue_for` gives the queue for changes of a topic's config, or with an empty name of brokers' configs."""
        self._queue_for = queue_for
        self._notes = notes
        self._broker_id = broker_id

    def use(self, queue_for: Callable[[str], EventQueue]) -> None:
        """This broker controls the cluster from now on, or does so no longer."""
        self._queue_for = queue_for

    @property
    def stored(self) -> StoredBrokerConfigs:
        """The entries that were set for this broker, and for all of them."""
        return self._queue_for(ALL_BROKERS).state.broker_configs

    def find_topic(self, name: str) -> TopicImage | ConfigFault:
        return find_topic(self._queue_for(name).state, name)

    def find_broker(self, name: str) -> BrokerId | ConfigFault | None:
        """The broker that a resource names; None stands for all of them."""
        if name == ALL_BROKERS:
            return None
        if name != str(self._broker_id):
            return ConfigFault(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._broker_id} or empty string, but received {name}",
            )
        return self._broker_id

    def alter_topic(self, name: str, change: ConfigChange, on_done: OnDone, *, validate_only: bool = False) -> None:
        """Calls `on_done` when the next append and the next round of retention use the new config."""
        self._submit(self._queue_for(name), TopicConfigChange(name, change), on_done, validate_only=validate_only)

    def alter_broker(self, name: str, change: ConfigChange, on_done: OnDone, *, validate_only: bool = False) -> None:
        """Calls `on_done` when the broker uses the new config."""
        broker = self.find_broker(name)
        if isinstance(broker, ConfigFault):
            on_done(broker)
        else:
            queue = self._queue_for(ALL_BROKERS)
            self._submit(queue, BrokerConfigChange(broker, change), on_done, validate_only=validate_only)

    def _submit(
        self,
        queue: EventQueue,
        event: TopicConfigChange | BrokerConfigChange,
        on_done: OnDone,
        *,
        validate_only: bool,
    ) -> None:
        def on_settled(outcome: Done | ConfigFault) -> None:
            if isinstance(outcome, ConfigFault):
                on_done(outcome)
                return
            if outcome.written is not None and outcome.written.is_ok:
                self._notes.add(outcome.written)
            on_done(None)

        queue.submit(event, on_settled, validate_only=validate_only)
