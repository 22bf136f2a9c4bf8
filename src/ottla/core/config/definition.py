"""How a config key is declared, and how a whole set of properties is checked against the declarations.

Every key is declared once; parsing, validation, documentation and DescribeConfigs read that declaration. The keys
themselves are in `broker_keys.py` and `topic_keys.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from ottla.core.config.values import ConfigType, ConfigValue, parse_value


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class DynamicMode(Enum):
    """Who can change a key while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Synonym(NamedTuple):
    """A broker key that gives the value when the key itself is not set, times `factor` (hours to milliseconds)."""

    name: str
    factor: int = 1

    def convert(self, value: ConfigValue) -> ConfigValue:
        if self.factor == 1 or not isinstance(value, int):
            return value
        return value * self.factor if value >= 0 else -1  # below zero means "no limit", in every unit


class ConfigKey(NamedTuple):
    """One key. A default of None means: no value, unless a synonym has one."""

    name: str
    type: ConfigType
    default: ConfigValue
    doc: str
    importance: Importance = Importance.MEDIUM
    dynamic: DynamicMode = DynamicMode.READ_ONLY
    at_least: float | None = None
    at_most: float | None = None
    valid_values: tuple[str, ...] = ()
    synonyms: tuple[Synonym, ...] = ()
    # For rules that a range can't express; it returns what is wrong, or None.
    check: Callable[[ConfigValue], str | None] | None = None
    may_be_empty: bool = False  # for a list with `valid_values`

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """The value of `text`; ValueError says what was expected."""
        value = parse_value(self.type, text)
        problem = self.problem_with(value)
        if problem is not None:
            raise ValueError(problem)
        return value

    def problem_with(self, value: ConfigValue) -> str | None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            # Written so that NaN, which is neither above nor below anything, is refused too.
            above = self.at_least is None or value >= self.at_least
            below = self.at_most is None or value <= self.at_most
            if not (above and below):
                return f"expected {self.describe_range()}"
        if self.valid_values:
            chosen = value if isinstance(value, tuple) else (value,)
            is_empty = not chosen and not self.may_be_empty
            if is_empty or any(item not in self.valid_values for item in chosen):
                return f"expected {self.describe_range()}"
        return self.check(value) if self.check is not None else None

    def describe_range(self) -> str:
        """The values that the key takes, in words; empty when its type says enough."""
        if self.valid_values:
            listed = ", ".join(self.valid_values)
            if self.type is ConfigType.LIST:
                return f"any of {listed}" if self.may_be_empty else f"one or more of {listed}"
            return f"one of {listed}"
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least} to {self.at_most}"
        if self.at_least is not None:
            return f"at least {self.at_least}"
        return f"at most {self.at_most}" if self.at_most is not None else ""


class ConfigError(Exception):
    """Properties that can't be used; `problems` has every reason, a line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Parsed(NamedTuple):
    """The values of a set of properties and the problems with it; `refused` are the keys that have a problem."""

    values: dict[str, ConfigValue]
    problems: list[str]
    refused: frozenset[str]


class Definition:
    """All keys of one kind of resource. Created once at import; never changes."""

    __slots__ = ("_not_served", "_not_served_prefixes", "keys", "resource")

    def __init__(
        self,
        resource: str,
        keys: Iterable[ConfigKey],
        *,
        not_served: Mapping[str, str],
        not_served_prefixes: tuple[str, ...] = (),
    ) -> None:
        self.resource = resource
        self.keys: dict[str, ConfigKey] = {}
        for key in keys:
            assert key.name not in self.keys, f"{key.name} is declared twice"
            self.keys[key.name] = key
        self._not_served = not_served  # Kafka's other keys: the reason, or an empty text
        self._not_served_prefixes = not_served_prefixes

    def parse(self, properties: Mapping[str, str]) -> Parsed:
        """Every valid value and every problem; the first problem does not end the check."""
        values: dict[str, ConfigValue] = {}
        problems: list[str] = []
        for name, text in properties.items():
            key = self.keys.get(name)
            if key is None:
                problems.append(self.refusal_of(name))
                continue
            try:
                values[name] = key.parse(text)
            except ValueError as error:
                shown = "(hidden)" if key.is_sensitive else text.strip()
                problems.append(self._problem_text(name, shown, error))
        return Parsed(values, problems, frozenset(name for name in properties if name not in values))

    def is_known_to_kafka(self, name: str) -> bool:
        """Whether it is a key of Kafka's that has no effect here (yet)."""
        return name in self._not_served or name.startswith(self._not_served_prefixes)

    def refusal_of(self, name: str) -> str:
        """Why a name that is not declared can't be set."""
        if self.is_known_to_kafka(name):
            reason = self._not_served.get(name)
            return f"known to Kafka, not served by Ottla: {name}" + (f" ({reason})" if reason else "")
        from difflib import get_close_matches  # only an error pays for this import

        nearest = get_close_matches(name, [*self.keys, *self._not_served], n=1)
        hint = f"; the nearest known one is {nearest[0]}" if nearest else ""
        what = "Unknown topic config name:" if self._is_worded_as_kafka else f"unknown {self.resource} key"
        return f"{what} {name}{hint}"

    def _problem_text(self, name: str, shown: str, error: ValueError) -> str:
        if self._is_worded_as_kafka:
            return f"Invalid value {shown} for configuration {name}: {error}"
        return f"{name}={shown}: {error}"

    @property
    def _is_worded_as_kafka(self) -> bool:
        """Topic configs come only in requests, and scripts look for Kafka's words in the answers."""
        return self.resource == "topic"
