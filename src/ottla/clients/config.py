"""A client's config: Kafka's keys with dots or underscores, text or typed values, validated as a whole.

`common_keys.py`, `producer/keys.py` and `consumer/keys.py` declare the keys.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, TypeAlias

from ottla.clients.common_keys import COMMON_KEYS, COMMON_NOT_SERVED, COMMON_NOT_SERVED_PREFIXES
from ottla.core.config.definition import ConfigError, ConfigKey, Definition
from ottla.core.config.values import ConfigType, ConfigValue, TypedValues, render_value
from ottla.links.backoff import Backoff
from ottla.links.settings import NetworkSettings

# A rule across keys returns the problem, or None.
Rule: TypeAlias = "Callable[[ClientConfig], str | None]"


class UnknownConfigKey(UserWarning):
    """A key in a properties file that this client doesn't use."""


class ClientDefinition(Definition):
    """All keys of one kind of client: the common ones and its own. A key of type CLASS takes Python objects.

    Created once at import. `rules` are checked when every single value is valid. A client that doesn't use a common key
    names it in `not_served`.
    """

    __slots__ = ("rules",)

    def __init__(
        self,
        resource: str,
        keys: Iterable[ConfigKey],
        *,
        not_served: Mapping[str, str] | None = None,
        rules: Iterable[Rule] = (),
    ) -> None:
        refused = {**COMMON_NOT_SERVED, **(not_served or {})}
        super().__init__(
            resource,
            (*(key for key in COMMON_KEYS if key.name not in refused), *keys),
            not_served=refused,
            not_served_prefixes=COMMON_NOT_SERVED_PREFIXES,
        )
        self.rules = tuple(rules)


class ClientConfig(TypedValues):
    """Immutable; every key of its definition has a value."""

    __slots__ = ("_given", "definition")

    def __init__(self, definition: ClientDefinition, given: Mapping[str, Any]) -> None:
        super().__init__({name: key.default for name, key in definition.keys.items()} | dict(given))
        self.definition = definition
        self._given = frozenset(given)

    @classmethod
    def parse(
        cls, definition: ClientDefinition, settings: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> "ClientConfig":
        """Validate all settings; ConfigError has every problem. None stands for the default."""
        given, problems = _dotted(settings, keywords)
        values: dict[str, Any] = {}
        for name, value in given.items():
            key = definition.keys.get(name)
            if key is None:
                problems.append(definition.refusal_of(name))
                continue
            try:
                values[name] = _typed(key, value)
            except ValueError as error:
                problems.append(f"{name}={'(hidden)' if key.is_sensitive else _shown(value)}: {error}")
        config = cls(definition, values)
        if not problems:
            problems = [problem for rule in definition.rules if (problem := rule(config)) is not None]
        if problems:
            raise ConfigError(problems)
        return config

    @classmethod
    def from_properties(
        cls,
        definition: ClientDefinition,
        path: str | PathLike[str],
        /,
        settings: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> "ClientConfig":
        """A properties file, with `settings` on top. Programs share files: an unknown key in a file only gives a
        warning; an invalid value is an error.
        """
        from ottla.core.config.properties import parse_properties  # only needed with a file

        usable: dict[str, Any] = {}
        with open(path, "rb") as file:
            properties = parse_properties(file.read())
        for name, text in properties.items():
            if name in definition.keys:
                usable[name] = text
            else:
                warnings.warn(f"{path}: {definition.refusal_of(name)}", UnknownConfigKey, stacklevel=2)
        given, problems = _dotted(settings, keywords)
        if problems:
            raise ConfigError(problems)
        return cls.parse(definition, usable | given)

    def is_given(self, name: str) -> bool:
        """Whether the user set it, to whatever value."""
        return name in self._given

    def get_object(self, name: str) -> Any:
        """The object of a key of type CLASS, imported if the value is its name; None if there is none."""
        value = self._values[name]
        return _import_object(name, value) if isinstance(value, str) else value

    def get_objects(self, name: str) -> tuple[Any, ...]:
        """The objects of a key that takes several: a list of objects or names, or text with commas."""
        value = self._values[name]
        if value is None or value == "":
            return ()
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        items = value if isinstance(value, (list, tuple)) else (value,)
        return tuple(_import_object(name, item) if isinstance(item, str) else item for item in items)

    @property
    def bootstrap(self) -> str:
        return ",".join(self.get_list("bootstrap.servers"))

    @property
    def client_id(self) -> str:
        return self.get_str("client.id")

    def retry_backoff(self) -> Backoff:
        return Backoff(first_ms=self.get_int("retry.backoff.ms"), max_ms=self.get_int("retry.backoff.max.ms"))

    def network_settings(self) -> NetworkSettings:
        return NetworkSettings(
            request_timeout_ms=self.get_int("request.timeout.ms"),
            reconnect_backoff_ms=self.get_int("reconnect.backoff.ms"),
            reconnect_backoff_max_ms=self.get_int("reconnect.backoff.max.ms"),
            setup_timeout_ms=self.get_int("socket.connection.setup.timeout.ms"),
            setup_timeout_max_ms=self.get_int("socket.connection.setup.timeout.max.ms"),
            connections_max_idle_ms=self.get_int("connections.max.idle.ms"),
            send_buffer_bytes=self.get_int("send.buffer.bytes"),
            receive_buffer_bytes=self.get_int("receive.buffer.bytes"),
        )


def _dotted(settings: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Merge the mapping and the keywords, with Kafka's names; a key in both is an error."""
    given: dict[str, Any] = {}
    problems = []
    for name, value in [*(settings or {}).items(), *keywords.items()]:
        dotted = name.replace("_", ".")
        if dotted in given:
            problems.append(f"{dotted} is given twice")
        elif value is not None:
            given[dotted] = value
    return given, problems


def _typed(key: ConfigKey, value: Any) -> Any:
    if key.type is ConfigType.CLASS:
        problem = key.problem_with(value) if isinstance(value, str) else None
        if problem is not None:
            raise ValueError(problem)
        return value
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, tuple) and key.type is ConfigType.LIST and all(isinstance(item, str) for item in value):
        listed: ConfigValue = value
        problem = key.problem_with(listed)
        if problem is not None:
            raise ValueError(problem)
        return listed
    if isinstance(value, bool) and key.type is ConfigType.STRING:
        raise ValueError("expected text")
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"expected {key.type.name.lower()}, not {type(value).__name__}")
    text = render_value(value)
    assert text is not None
    return key.parse(text)


def _shown(value: Any) -> str:
    return value.strip() if isinstance(value, str) else repr(value)


def _import_object(name: str, path: str) -> Any:
    """`package.module:Name`, or with a dot instead of the colon."""
    from importlib import import_module

    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError([f"{name}={path}: not found in Python; expected an object or package.module:Name"]) from error
