"""The types of config values: how to parse them, print them and read them by name.

It knows no key: `definition.py` says which type and which values a key has.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, TypeAlias

# A list is a tuple: values are shared between threads and never change.
ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The codes are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

_INTEGER_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def parse_value(value_type: ConfigType, text: str) -> ConfigValue:
    """Parse `text`; ValueError says what was expected."""
    text = text.strip()
    if value_type in _INTEGER_BITS:
        return _parse_integer(text, bits=_INTEGER_BITS[value_type])
    if value_type is ConfigType.BOOLEAN:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError("expected true or false")
        return lowered == "true"
    if value_type is ConfigType.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ValueError("expected a number") from None
    if value_type is ConfigType.LIST:
        return tuple(item.strip() for item in text.split(",")) if text else ()
    return text


def render_value(value: ConfigValue) -> str | None:
    """The text that `parse_value` reads back as `value`; None where there is no value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _parse_integer(text: str, *, bits: int) -> int:
    # int() alone would take "1_000" and digits of other scripts, which Kafka's tools refuse.
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("expected a whole number")
    limit = 1 << (bits - 1)
    # The length first: converting thousands of digits is slow, and Python refuses it with a message of its own.
    number = int(text) if len(digits) <= 20 else limit
    if not -limit <= number < limit:
        raise ValueError(f"expected a whole number of {bits} bits")
    return number


class TypedValues:
    """Typed access to the values of a config by name.

    Both are bugs: a name that is not declared raises KeyError, a value of another type fails an assertion.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get_int(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int) and not isinstance(value, bool), f"{name} is not a whole number: {value!r}"
        return value

    def get_bool(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool), f"{name} is not a boolean: {value!r}"
        return value

    def get_float(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, float), f"{name} is not a double: {value!r}"
        return value

    def get_str(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str), f"{name} is not a string: {value!r}"
        return value

    def get_optional_str(self, name: str) -> str | None:
        return None if self._values[name] is None else self.get_str(name)

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple), f"{name} is not a list: {value!r}"
        return value
