"""The config of a broker and of its topics: checked, resolved, and able to say where each value comes from.

Immutable. Code on a hot path copies what it needs when it starts; a change makes a new object.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.core.config.broker_checks import problems_between_keys
from ottla.core.config.broker_keys import BROKER_DEFINITION
from ottla.core.config.definition import ConfigError, ConfigKey, Definition, Synonym
from ottla.core.config.listeners import Listener, parse_address_limits, parse_listener, parse_protocol_map
from ottla.core.config.topic_keys import TOPIC_DEFINITION
from ottla.core.config.values import ConfigValue, render_value


class ConfigSource(IntEnum):
    """With the codes that DescribeConfigs uses."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Origin(NamedTuple):
    """One place that has a value for a key: the name there, the value as text, and which kind of place it is."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """All that DescribeConfigs tells about a key; the first of `origins` is in force, the others would follow it."""

    key: ConfigKey
    value: str | None
    source: ConfigSource
    origins: tuple[Origin, ...]


class Configuration(ABC):
    """Values by name, each asked for by its type. A name that is not declared is a bug and raises KeyError."""

    __slots__ = ("_values", "definition")

    def __init__(self, definition: Definition, values: Mapping[str, ConfigValue]) -> None:
        self.definition = definition
        self._values = values  # effective: synonyms and defaults resolved

    def __getitem__(self, name: str) -> ConfigValue:
        return self._values[name]

    def get_int(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int) and not isinstance(value, bool), f"{name} is no whole number: {value!r}"
        return value

    def get_bool(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool), f"{name} is no boolean: {value!r}"
        return value

    def get_float(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, float), f"{name} is no double: {value!r}"
        return value

    def get_str(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str), f"{name} is no string: {value!r}"
        return value

    def get_optional_str(self, name: str) -> str | None:
        return None if self._values[name] is None else self.get_str(name)

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple), f"{name} is no list: {value!r}"
        return value

    def entry(self, name: str) -> ConfigEntry:
        """The key with its value, and every place that has one."""
        key = self.definition.keys[name]
        origins = tuple(self.origins(name))
        value = render_value(self._values[name])
        return ConfigEntry(key, value, origins[0].source if origins else ConfigSource.DEFAULT, origins)

    @abstractmethod
    def origins(self, name: str) -> Iterator[Origin]:
        """Every place that has a value for the key, in the order in which they win."""


class BrokerConfig(Configuration):
    """One broker's config, from its file and its command line."""

    __slots__ = ("_own_values",)

    def __init__(self, own_values: Mapping[str, ConfigValue]) -> None:
        super().__init__(BROKER_DEFINITION, {name: _resolve(name, own_values) for name in BROKER_DEFINITION.keys})
        self._own_values = own_values

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> "BrokerConfig":
        """Check all of `properties`; ConfigError has every problem."""
        parsed = BROKER_DEFINITION.parse(properties)
        config = cls(parsed.values)
        problems = parsed.problems + problems_between_keys(config, set_names=properties.keys(), refused=parsed.refused)
        if problems:
            raise ConfigError(problems)
        return config

    def origins(self, name: str) -> Iterator[Origin]:
        for source, values in (
            (ConfigSource.STATIC_BROKER, self._own_values),
            (ConfigSource.DEFAULT, _DEFAULTS),
        ):
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
        """What clients are told. An empty host or port 0 is filled in by whoever binds the sockets."""
        advertised = self["advertised.listeners"]
        return self.listeners() if advertised is None else self._with_protocols(self.get_list("advertised.listeners"))

    def inter_broker_listener_name(self) -> str:
        """The listener for brokers: the one that is named, or the first."""
        name = self.get_optional_str("inter.broker.listener.name")
        return name.upper() if name else self.listeners()[0].name

    def connection_limit_by_address(self) -> dict[str, int]:
        """Addresses with a limit of their own."""
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

    def origins(self, name: str) -> Iterator[Origin]:
        if name in self._overrides:
            yield Origin(name, render_value(self._overrides[name]), ConfigSource.DYNAMIC_TOPIC)
        yield from self._broker.origins(TOPIC_DEFINITION.keys[name].synonyms[0].name)


_DEFAULTS: dict[str, ConfigValue] = {name: key.default for name, key in BROKER_DEFINITION.keys.items()}


def _resolve(name: str, own_values: Mapping[str, ConfigValue]) -> ConfigValue:
    """A key's value: what is set under its name or its synonyms, in that order, and after that the defaults."""
    for values in (own_values, _DEFAULTS):
        if (value := values.get(name)) is not None:
            return value
        for synonym in BROKER_DEFINITION.keys[name].synonyms:
            if (value := values.get(synonym.name)) is not None:
                return synonym.convert(value)
    return None
