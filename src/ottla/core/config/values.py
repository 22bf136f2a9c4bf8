"""The types of config values, and how text becomes a value and a value becomes text again.

Knows no key: which type a key has, and what it may be, is `definition.py`'s.
"""

from enum import IntEnum
from typing import TypeAlias

# A list is a tuple: values are shared between threads and never change.
ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """With the codes that DescribeConfigs uses."""

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
    """The value that `text` means; ValueError says what was expected."""
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
