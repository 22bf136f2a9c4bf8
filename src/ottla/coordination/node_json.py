"""JSON values of nodes: written compactly, read with the path in every complaint.

It knows how fields are taken apart, not which fields a node has: that is in `paths.py`.
"""

import json
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Any

from ottla.core.types import BrokerId, TopicPartition


class MalformedNodeError(Exception):
    """A node's value is not what its path promises."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"coordination store, node {path}: {problem}; repair or delete the node")
        self.path = path


def encode_object(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


class JsonFields:
    """A JSON object whose fields are taken by name and type."""

    def __init__(self, path: str, value: bytes | dict[str, Any]) -> None:
        self._path = path
        if isinstance(value, dict):
            self._fields = value
            return
        try:
            fields = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise MalformedNodeError(path, f"expected JSON, got {value[:40]!r} ({error})") from error
        if not isinstance(fields, dict):
            raise MalformedNodeError(path, f"expected a JSON object, got {value[:40]!r}")
        self._fields = fields

    def integer(self, name: str, default: int | None = None) -> int:
        """A number; some are written as text (timestamps, producer ids)."""
        value = self._fields.get(name, default)
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError as error:
                raise self._wrong(name, "a number") from error
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, "a number")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        return self._integers_of(self._fields.get(name), name)

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._fields.get(name) is None else self.text(name)

    def texts(self, name: str) -> list[str]:
        values = self._fields.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self._wrong(name, "a list of text")
        return values

    def text_map(self, name: str) -> dict[str, str]:
        values = self._fields.get(name, {})
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise self._wrong(name, "an object of text")
        return values

    def replica_lists(self, name: str, default: dict[str, Any] | None = None) -> dict[int, tuple[BrokerId, ...]]:
        values = self._fields.get(name, default)
        if not isinstance(values, dict) or not all(key.isdecimal() for key in values):
            raise self._wrong(name, "an object of replica lists by partition")
        return {int(key): self._integers_of(brokers, name) for key, brokers in values.items()}

    def objects(self, name: str) -> "list[JsonFields]":
        values = self._fields.get(name)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self._wrong(name, "a list of objects")
        return [JsonFields(self._path, value) for value in values]

    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.text("topic"), self.integer("partition"))

    def _integers_of(self, values: Any, name: str) -> tuple[int, ...]:
        if not isinstance(values, list) or not all(type(value) is int for value in values):
            raise self._wrong(name, "a list of numbers")
        return tuple(values)

    def _wrong(self, name: str, expected: str) -> MalformedNodeError:
        value = repr(self._fields.get(name))
        return MalformedNodeError(self._path, f"field {name!r} must be {expected}, got {value[:40]}")


def encode_uuid(uuid: bytes) -> str:
    """As Kafka writes topic ids and the cluster id: 22 characters of URL-safe base64."""
    return b2a_base64(uuid, newline=False).decode("ascii").rstrip("=").replace("+", "-").replace("/", "_")


def decode_uuid(path: str, text: str) -> bytes:
    try:
        uuid = a2b_base64(text.replace("-", "+").replace("_", "/") + "==")
    except (Base64Error, ValueError) as error:
        raise MalformedNodeError(path, f"{text!r} is no base64 id: {error}") from error
    if len(uuid) != 16:
        raise MalformedNodeError(path, f"the id {text!r} has {len(uuid)} bytes, expected 16")
    return uuid
