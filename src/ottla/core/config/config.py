"""The config of a broker and of its topics: validated and resolved; it knows where each value comes from.

Immutable. Code on a hot path copies what it needs when it starts; a change creates a new object.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.core.config.broker_checks import broken_rules
from ottla.core.config.broker_keys import BROKER_DEFINITION
from ottla.core.config.definition import ConfigError, ConfigKey, Definition, DynamicMode, Synonym
from ottla.core.config.listeners import Listener, parse_address_limits, parse_listener, parse_protocol_map
from ottla.core.config.topic_keys import TOPIC_DEFINITION
from ottla.core.config.values import ConfigValue, TypedValues, render_value

_DEFAULTS: dict[str, ConfigValue] = {name: key.default for name, key in BROKER_DEFINITION.keys.items()}
_NOTHING: Mapping[str, ConfigValue] = {}


class ConfigSource(IntEnum):
    """The codes are those of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Origin(NamedTuple):
    """One source that has a value for a key: the key's name there, the value as text, and the kind of source."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """What DescribeConfigs returns for a key; the first of `origins` applies, the others are its fallbacks."""

    key: ConfigKey
    value: str | None
    source: ConfigSource
    origins: tuple[Origin, ...]


class Configuration(TypedValues, ABC):
    """Typed values by name. A name that is not declared is a bug and raises KeyError."""

    __slots__ = ("definition",)

    def __init__(self, definition: Definition, values: Mapping[str, ConfigValue]) -> None:
        super().__init__(values)  # effective: synonyms and defaults resolved
        self.definition = definition

    def entry(self, name: str) -> ConfigEntry:
        """The key with its value, and every source that has one."""
        key = self.definition.keys[name]
        origins = tuple(self.origins(name))
        value = render_value(self._values[name])
        return ConfigEntry(key, value, origins[0].source if origins else ConfigSource.DEFAULT, origins)

    @abstractmethod
    def origins(self, name: str) -> Iterator[Origin]:
        """Every source that has a value for the key; the first one wins."""


class BrokerConfig(Configuration):
    """One broker's config: its file and command line, with the dynamic entries on top."""

    __slots__ = ("_layers", "_static")

    def __init__(
        self,
        static: Mapping[str, ConfigValue],
        *,
        per_broker: Mapping[str, ConfigValue] = _NOTHING,
        cluster_wide: Mapping[str, ConfigValue] = _NOTHING,
    ) -> None:
        layers = (
            (ConfigSource.DYNAMIC_BROKER, per_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, cluster_wide),
            (ConfigSource.STATIC_BROKER, static),
            (ConfigSource.DEFAULT, _DEFAULTS),
        )
        self._layers = tuple((source, values) for source, values in layers if values)
        self._static = static
        in_order = [values for _, values in self._layers]
        super().__init__(BROKER_DEFINITION, {name: _resolve(name, in_order) for name in BROKER_DEFINITION.keys})

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> "BrokerConfig":
        """Check all of `properties`; ConfigError has every problem."""
        parsed = BROKER_DEFINITION.parse(properties)
        config = cls(parsed.values)
        broken = broken_rules(config, set_names=properties.keys(), refused=parsed.refused)
        problems = parsed.problems + [rule.problem for rule in broken]
        if problems:
            raise ConfigError(problems)
        return config

    def with_dynamic(
        self, *, per_broker: Mapping[str, str], cluster_wide: Mapping[str, str]
    ) -> "tuple[BrokerConfig, list[str]]":
        """The file's config with new dynamic entries on top, in place of the old ones.

        Invalid entries are left out, each with a problem: a request that changes them is refused, and a broker that
        finds them at its start goes on without them.
        """
        problems = []
        layers: list[dict[str, ConfigValue]] = []
        for entries, is_cluster_wide in ((per_broker, False), (cluster_wide, True)):
            usable = {}
            for name, text in entries.items():
                problem = _why_not_dynamic(name, is_cluster_wide=is_cluster_wide)
                if problem is None:
                    usable[name] = text
                else:
                    problems.append(problem)
            parsed = BROKER_DEFINITION.parse(usable)
            problems += parsed.problems
            layers.append(parsed.values)
        own, default = layers
        config = BrokerConfig(self._static, per_broker=own, cluster_wide=default)
        broken = broken_rules(config, set_names=self._static.keys(), refused=())
        if broken:
            at_fault = {name for rule in broken for name in rule.names}
            problems += [rule.problem for rule in broken]
            own, default = ({name: layer[name] for name in layer if name not in at_fault} for layer in layers)
            config = BrokerConfig(self._static, per_broker=own, cluster_wide=default)
        return config, problems

    def with_derived(self, derived: Mapping[str, ConfigValue]) -> "BrokerConfig":
        """Adds what the start found out (ports, addresses, paths), as if the file contained it."""
        layers = dict(self._layers)
        return BrokerConfig(
            {**self._static, **derived},
            per_broker=layers.get(ConfigSource.DYNAMIC_BROKER, _NOTHING),
            cluster_wide=layers.get(ConfigSource.DYNAMIC_DEFAULT_BROKER, _NOTHING),
        )

    def origins(self, name: str) -> Iterator[Origin]:
        for source, values in self._layers:
            for synonym in (Synonym(name), *BROKER_DEFINITION.keys[name].synonyms):
                if (value := values.get(synonym.name)) is not None:
                    yield Origin(synonym.name, render_value(value), source)

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return self.get_list("log.dirs")

    @property
    def coordination_path(self) -> str:
        return self.get_optional_str("ottla.coordination.path") or f"{self.log_dirs[0]}/coordination.sqlite"

    def listeners(self) -> list[Listener]:
        """Where to listen."""
        return self._with_protocols(self.get_list("listeners"))

    def advertised_listeners(self) -> list[Listener]:
        """The addresses for clients. The code that binds the sockets fills in an empty host or port 0."""
        advertised = self["advertised.listeners"]
        return self.listeners() if advertised is None else self._with_protocols(self.get_list("advertised.listeners"))

    def inter_broker_listener_name(self) -> str:
        """The listener for brokers: the one that is named, or the first."""
        name = self.get_optional_str("inter.broker.listener.name")
        return name.upper() if name else self.listeners()[0].name

    def connection_limit_by_address(self) -> dict[str, int]:
        """The connection limits of single addresses."""
        return parse_address_limits(self.get_list("max.connections.per.ip.overrides"))

    def _with_protocols(self, texts: tuple[str, ...]) -> list[Listener]:
        protocols = parse_protocol_map(self.get_list("listener.security.protocol.map"))
        listeners = (parse_listener(text) for text in texts)
        return [listener._replace(security_protocol=protocols[listener.name]) for listener in listeners]


class TopicConfig(Configuration):
    """One topic's config: its own overrides over the broker's values."""

    __slots__ = ("_broker", "_overrides")

    def __init__(self, overrides: Mapping[str, ConfigValue], broker: BrokerConfig) -> None:
        values = {
            name: overrides[name] if name in overrides else broker[key.synonyms[0].name]
            for name, key in TOPIC_DEFINITION.keys.items()
        }
        super().__init__(TOPIC_DEFINITION, values)
        self._overrides = overrides
        self._broker = broker

    @classmethod
    def parse(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> "TopicConfig":
        """Check a topic's own properties; ConfigError has every problem."""
        parsed = TOPIC_DEFINITION.parse(overrides)
        if parsed.problems:
            raise ConfigError(parsed.problems)
        return cls(parsed.values, broker)

    @classmethod
    def of_stored(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> "tuple[TopicConfig, list[str]]":
        """A topic's stored properties; an invalid one is left out, and its problem returned."""
        parsed = TOPIC_DEFINITION.parse(overrides)
        return cls(parsed.values, broker), parsed.problems

    @property
    def broker(self) -> BrokerConfig:
        """The value that applies when the topic has no override."""
        return self._broker

    def origins(self, name: str) -> Iterator[Origin]:
        if name in self._overrides:
            yield Origin(name, render_value(self._overrides[name]), ConfigSource.DYNAMIC_TOPIC)
        yield from self._broker.origins(TOPIC_DEFINITION.keys[name].synonyms[0].name)


def _resolve(name: str, layers: Iterable[Mapping[str, ConfigValue]]) -> ConfigValue:
    """A key's value from the first layer that has it under its name or one of its synonyms, in that order."""
    for values in layers:
        if (value := values.get(name)) is not None:
            return value
        for synonym in BROKER_DEFINITION.keys[name].synonyms:
            if (value := values.get(synonym.name)) is not None:
                return synonym.convert(value)
    return None


def _why_not_dynamic(name: str, *, is_cluster_wide: bool) -> str | None:
    key = BROKER_DEFINITION.keys.get(name)
    if key is None:
        return BROKER_DEFINITION.refusal_of(name)
    if key.dynamic is DynamicMode.READ_ONLY:
        return f"{name} can't be changed while brokers run; set it in the broker's properties file and restart it"
    if is_cluster_wide and key.dynamic is DynamicMode.PER_BROKER:
        return f"{name} can be set for a single broker only, not for all of the cluster"
    return None
