"""Values of a config by name, each asked for by its type: what all configs have in common."""

from collections.abc import Mapping
from typing import Any


class TypedValues:
    """A name that is not declared is a bug and raises KeyError; so is a value of another type, and an assertion."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
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
