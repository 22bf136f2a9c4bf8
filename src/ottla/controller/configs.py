"""Configs of topics and brokers are changed here: a change is checked as a whole, written into the store, then applied.

Owned by the controller; event loop only. What is in the store is the truth: after a crash between the write and its
application, the next start reads it. Entries in the store that can't be used stand in nobody's way: a change is
answerable for the keys that it sets.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from ottla.controller.config_edits import ConfigChange, ConfigFault, changed_entries, names_set_by
from ottla.controller.config_nodes import ConfigNode, ConfigNodes, Entries
from ottla.controller.topic_names import problem_with
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId

OnDone = Callable[[ConfigFault | None], None]

ALL_BROKERS = ""  # the name of the resource whose entries hold for every broker


class StoredBrokerConfigs(NamedTuple):
    """The entries for one broker and for all of them, as the store has them."""

    per_broker: Mapping[str, str]
    cluster_wide: Mapping[str, str]


class ConfigApplier(Protocol):
    """The broker's side of a topic's new config."""

    def apply_config(self, image: TopicImage) -> None: ...


class Configs:
    """Who changes a topic's or a broker's entries, and knows those of the brokers."""

    def __init__(
        self,
        nodes: ConfigNodes,
        topics: Topics,
        current: CurrentConfig,
        applier: ConfigApplier,
        *,
        broker_id: BrokerId,
        stored: StoredBrokerConfigs,
    ) -> None:
        self._nodes = nodes
        self._topics = topics
        self._current = current
        self._applier = applier
        self._broker_id = broker_id
        self.stored = stored

    # Topics

    def find_topic(self, name: str) -> TopicImage | ConfigFault:
        problem = problem_with(name)
        if problem is not None:
            return ConfigFault(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        image = self._topics.find(name)
        if image is None:
            return ConfigFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return image

    def alter_topic(self, name: str, change: ConfigChange, on_done: OnDone, *, validate_only: bool = False) -> None:
        """`on_done` hears of it when the next append and the next look of the retention go by the new config."""
        image = self.find_topic(name)
        if isinstance(image, ConfigFault):
            on_done(image)
            return
        topic_id = image.topic_id
        if validate_only:
            on_done(_fault_in(self._decide_topic(change, image.configs)))
            return

        def on_changed(outcome: Entries | ConfigFault) -> None:
            if not isinstance(outcome, ConfigFault):
                now = self._topics.images.get(name)
                if now is not None and now.topic_id == topic_id:  # else it was deleted meanwhile
                    changed = now._replace(configs=outcome)
                    self._topics.images[name] = changed
                    self._applier.apply_config(changed)
            on_done(_fault_in(outcome))

        node = ConfigNode("topics", name, owner_path=paths.topic_path(name))
        self._nodes.change(node, partial(self._decide_topic, change), on_changed)

    def _decide_topic(self, change: ConfigChange, entries: Mapping[str, str]) -> Entries | ConfigFault:
        broker = self._current.value
        in_force, _ = TopicConfig.of_stored(entries, broker)
        changed = changed_entries(entries, change, in_force)
        if isinstance(changed, ConfigFault):
            return changed
        _, problems = TopicConfig.of_stored(changed, broker)
        _, old_problems = TopicConfig.of_stored(_without(entries, names_set_by(change)), broker)
        new_problems = [problem for problem in problems if problem not in old_problems]
        return ConfigFault(ErrorCode.INVALID_CONFIG, "; ".join(new_problems)) if new_problems else changed

    # Brokers

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

    def alter_broker(self, name: str, change: ConfigChange, on_done: OnDone, *, validate_only: bool = False) -> None:
        """`on_done` hears of it when the broker goes by the new config."""
        broker = self.find_broker(name)
        if isinstance(broker, ConfigFault):
            on_done(broker)
            return
        is_cluster_wide = broker is None
        decide = partial(self._decide_broker, change, is_cluster_wide=is_cluster_wide)
        if validate_only:
            on_done(_fault_in(decide(self.stored.cluster_wide if is_cluster_wide else self.stored.per_broker)))
            return

        def on_changed(outcome: Entries | ConfigFault) -> None:
            if not isinstance(outcome, ConfigFault):
                self.stored = self._stored_with(outcome, is_cluster_wide=is_cluster_wide)
                self._current.replace(self._config_of(self.stored)[0])
            on_done(_fault_in(outcome))

        node = ConfigNode("brokers", paths.DEFAULT_ENTITY if is_cluster_wide else name)
        self._nodes.change(node, decide, on_changed)

    def _decide_broker(
        self, change: ConfigChange, entries: Mapping[str, str], *, is_cluster_wide: bool
    ) -> Entries | ConfigFault:
        changed = changed_entries(entries, change, self._current.value)
        if isinstance(changed, ConfigFault):
            return changed
        untouched = _without(entries, names_set_by(change))
        _, problems = self._config_of(self._stored_with(changed, is_cluster_wide=is_cluster_wide))
        _, old_problems = self._config_of(self._stored_with(untouched, is_cluster_wide=is_cluster_wide))
        new_problems = [problem for problem in problems if problem not in old_problems]
        # Kafka answers a broker's wrong value with this code, a topic's with INVALID_CONFIG.
        return ConfigFault(ErrorCode.INVALID_REQUEST, "; ".join(new_problems)) if new_problems else changed

    def _stored_with(self, entries: Mapping[str, str], *, is_cluster_wide: bool) -> StoredBrokerConfigs:
        if is_cluster_wide:
            return self.stored._replace(cluster_wide=entries)
        return self.stored._replace(per_broker=entries)

    def _config_of(self, stored: StoredBrokerConfigs) -> tuple[BrokerConfig, list[str]]:
        return self._current.value.with_dynamic(per_broker=stored.per_broker, cluster_wide=stored.cluster_wide)


def _fault_in(outcome: Entries | ConfigFault) -> ConfigFault | None:
    return outcome if isinstance(outcome, ConfigFault) else None


def _without(entries: Mapping[str, str], names: frozenset[str]) -> Entries:
    return {name: text for name, text in entries.items() if name not in names}
