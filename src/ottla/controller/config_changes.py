"""Changes of the entries of a topic or of brokers: decided on what the node says, written with a note for others.

Entries in the store that can't be used block no change: it answers only for the keys that it sets.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.controller.config_edits import ConfigChange, ConfigFault, changed_entries, names_set_by
from ottla.controller.deltas import BrokerConfigsChanged, Delta, TopicConfigChanged
from ottla.controller.events import BROKER_CONFIGS_KEY, Decision, Inputs, NodeWanted, Proof
from ottla.controller.state import ClusterState, StoredBrokerConfigs
from ottla.controller.topic_faults import NO_CONTROLLER, not_controller
from ottla.controller.topic_names import problem_with, topic_key
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import ANY_VERSION, Check, Code, Create, Result, SetValue, Write
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.errors import ErrorCode

Entries = dict[str, str]


class TopicConfigChange(NamedTuple):
    """A request to change the entries of a topic."""

    topic: str
    change: ConfigChange

    @property
    def key(self) -> str:
        return topic_key(self.topic)

    def decide(self, state: ClusterState, inputs: Inputs, node: Result | None) -> Decision | NodeWanted | ConfigFault:
        name = self.topic
        image = find_topic(state, name)
        if isinstance(image, ConfigFault):
            return image
        if node is None:
            return NodeWanted(paths.config_path("topics", name))
        entries = _entries_in(node)
        if isinstance(entries, ConfigFault):
            return entries
        changed = self._changed(entries, inputs.config)
        if isinstance(changed, ConfigFault):
            return changed
        # A topic that goes meanwhile must not come back as a config without a topic.
        owner = Check(paths.topic_path(name), ANY_VERSION)
        return _decision(f"topics/{name}", node, entries, changed, TopicConfigChanged(name, changed), owner)

    def _changed(self, entries: Mapping[str, str], broker: BrokerConfig) -> Entries | ConfigFault:
        in_force, _ = TopicConfig.of_stored(entries, broker)
        changed = changed_entries(entries, self.change, in_force)
        if isinstance(changed, ConfigFault):
            return changed
        _, problems = TopicConfig.of_stored(changed, broker)
        _, old_problems = TopicConfig.of_stored(_without(entries, names_set_by(self.change)), broker)
        new_problems = [problem for problem in problems if problem not in old_problems]
        return ConfigFault(ErrorCode.INVALID_CONFIG, "; ".join(new_problems)) if new_problems else changed

    def fault_of(self, result: Result) -> ConfigFault:
        return _fault_of(f"topics/{self.topic}", result)


class BrokerConfigChange(NamedTuple):
    """A request to change the entries of a broker or, without an id, of all brokers."""

    broker_id: int | None
    change: ConfigChange

    @property
    def key(self) -> str:
        return BROKER_CONFIGS_KEY

    @property
    def entity(self) -> str:
        return paths.DEFAULT_ENTITY if self.broker_id is None else str(self.broker_id)

    def decide(self, state: ClusterState, inputs: Inputs, node: Result | None) -> Decision | NodeWanted | ConfigFault:
        if node is None:
            return NodeWanted(paths.config_path("brokers", self.entity))
        entries = _entries_in(node)
        if isinstance(entries, ConfigFault):
            return entries
        stored = state.broker_configs
        changed = self._changed(entries, stored, inputs.config)
        if isinstance(changed, ConfigFault):
            return changed
        delta = BrokerConfigsChanged(*self._stored_with(changed, stored))
        return _decision(f"brokers/{self.entity}", node, entries, changed, delta)

    def _changed(
        self, entries: Mapping[str, str], stored: StoredBrokerConfigs, broker: BrokerConfig
    ) -> Entries | ConfigFault:
        changed = changed_entries(entries, self.change, broker)
        if isinstance(changed, ConfigFault):
            return changed
        untouched = _without(entries, names_set_by(self.change))
        _, problems = broker.with_dynamic(**self._stored_with(changed, stored)._asdict())
        _, old_problems = broker.with_dynamic(**self._stored_with(untouched, stored)._asdict())
        new_problems = [problem for problem in problems if problem not in old_problems]
        # Kafka answers a broker's wrong value with this code, a topic's with INVALID_CONFIG.
        return ConfigFault(ErrorCode.INVALID_REQUEST, "; ".join(new_problems)) if new_problems else changed

    def _stored_with(self, entries: Mapping[str, str], stored: StoredBrokerConfigs) -> StoredBrokerConfigs:
        if self.broker_id is None:
            return stored._replace(cluster_wide=entries)
        return stored._replace(per_broker=entries)

    def fault_of(self, result: Result) -> ConfigFault:
        return _fault_of(f"brokers/{self.entity}", result)


def find_topic(state: ClusterState, name: str) -> TopicImage | ConfigFault:
    """The topic whose config is asked for, or why there is none."""
    problem = problem_with(name)
    if problem is not None:
        return ConfigFault(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    image = state.find(name)
    if image is None:
        return ConfigFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return image


def _entries_in(node: Result) -> Entries | ConfigFault:
    try:
        return paths.decode_config(node.path, node.value)
    except MalformedNodeError as error:
        return ConfigFault(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


def _decision(
    entity_path: str, node: Result, entries: Entries, changed: Entries, delta: Delta, *checks: Write
) -> Decision:
    """A change that changes nothing is not written; the note comes last (`ConfigNotes`)."""
    if changed == entries and node.is_ok:
        return Decision(delta)
    path, value = node.path, paths.encode_config(changed)
    writes = [
        *checks,
        Create(path, value) if node.stat is None else SetValue(path, value, node.stat.version),
        Create(paths.CONFIG_CHANGE_PREFIX, paths.encode_config_change(entity_path), sequential=True),
    ]
    return Decision(delta, writes, Proof(path, value))


def _fault_of(entity_path: str, result: Result) -> ConfigFault:
    if result.code == Code.NO_NODE:
        return ConfigFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{entity_path} is gone")
    if result is NO_CONTROLLER:
        return ConfigFault(*not_controller())
    return ConfigFault(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"the coordination store said {result.code.name} {result.detail} of {result.path or 'the change'}",
    )


def _without(entries: Mapping[str, str], names: frozenset[str]) -> Entries:
    return {name: text for name, text in entries.items() if name not in names}
