"""One record's bytes to one event, or to the reason why it is not one. Pure; does not use Spark.

The fast path takes sound events in one step. A record that it refuses is checked field by field, so that the reason
names what is wrong and unknown fields are kept. Reasons hold no value that might be a phone number.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from ottla.pipeline.events.event_types import (
    INTEGER_FIELDS,
    LONG_MAX,
    LONG_MIN,
    SIGNED_FIELDS,
    EventType,
    event_type,
)

NOT_JSON: Final = "not_json"
MISSING_FIELD: Final = "missing_field"
WRONG_TYPE: Final = "wrong_type"
FUTURE: Final = "future"
NEGATIVE: Final = "negative"
UNKNOWN_SCHEMA_VERSION: Final = "unknown_schema_version"
CONFLICT: Final = "conflict"
ERROR_CLASSES: Final = (NOT_JSON, MISSING_FIELD, WRONG_TYPE, FUTURE, NEGATIVE, UNKNOWN_SCHEMA_VERSION, CONFLICT)

_encode_extra: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
_MALFORMED: Final = (msgspec.MsgspecError, ValueError, RecursionError)
# Decoders give up at a depth that differs between Python versions; this limit is below all of them.
_NESTING_MAX: Final = 100
# A whole string, so that brackets in it do not count, or one bracket. Linear for any bytes.
_TEXT_OR_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.S)
# No version gets that high, and phone numbers are larger.
_SHOWN_VERSION_MAX: Final = 99_999
# Undeclared fields: the first kind are phones whatever they hold, the second if the value has the form of a number, and
# any field if its text is a number with a calling code.
_PHONE_NAME: Final = re.compile("phone", re.I)
_LIKELY_NAME: Final = re.compile(r"mobile|msisdn|contact|(?:\b|_)(?:tel|cell)(?:\b|_)", re.I)
_NUMBER_FORM: Final = re.compile(r"\+?(?:[ \t\u00a0().\-‐–/]*\d){7,16}[ \t\u00a0)]*")
_JSON_NAMES: Final = {dict: "an object", list: "a list", str: "text", bool: "true or false", float: "a fraction"}


class Death(NamedTuple):
    """Why a record is not a sound event."""

    error_class: str
    reason: str


class Decoded(NamedTuple):
    """A sound event; `extra` are its unknown fields as a JSON object, keys sorted."""

    event: Any
    extra: str | None


class EventDecoder:
    """For the records of one topic."""

    __slots__ = ("_hash_phone", "decode_fast", "type")

    def __init__(self, topic_name: str, *, schema_versions: tuple[int, ...], hash_phone: Callable[[str], str]) -> None:
        self.type: EventType = event_type(topic_name, schema_versions)
        self.decode_fast: Callable[[bytes], Any] = msgspec.json.Decoder(self.type.struct).decode
        self._hash_phone = hash_phone

    def decode(self, value: bytes | None) -> Decoded | Death:
        if value is None:
            return Death(NOT_JSON, "the record has no value")
        try:
            return Decoded(self.decode_fast(value), None)
        except _MALFORMED:
            return self._explain(value)

    def _explain(self, value: bytes) -> Decoded | Death:
        if _is_too_deep(value):
            return Death(NOT_JSON, f"nested more than {_NESTING_MAX} levels deep")
        try:
            found = msgspec.json.decode(value)
        except UnicodeDecodeError:
            return Death(NOT_JSON, "text in it is not UTF-8")
        except _MALFORMED as error:
            return Death(NOT_JSON, str(error))
        if not isinstance(found, dict):
            return Death(WRONG_TYPE, f"expected an object, found {_name(found)}")
        death = self._fault(found)
        if death is not None:
            return death
        known = {name: found.get(name) for name in self.type.fields if found.get(name) is not None}
        # A default is left out of the canonical form only if it is the same object.
        known.pop("event_type", None)
        found = {name: each for name, each in found.items() if name not in self.type.fields}
        event = self.type.struct(**known)
        if not found:
            return Decoded(event, None)
        try:
            return Decoded(event, _encode_extra(self._without_phones(found)))
        except (ValueError, RecursionError) as error:
            return Death(NOT_JSON, f"unknown fields can't be kept: {type(error).__name__}")

    def _fault(self, found: Mapping[str, Any]) -> Death | None:
        """The first problem. The version comes first: the fields of other versions are not known."""
        version = found.get("schema_version")
        if version is None:
            return Death(MISSING_FIELD, "schema_version is missing")
        if not isinstance(version, int) or isinstance(version, bool):
            return Death(WRONG_TYPE, f"schema_version: expected a whole number, found {_name(version)}")
        if version not in self.type.schema_versions:
            known = ", ".join(map(str, sorted(self.type.schema_versions)))
            shown = version if abs(version) <= _SHOWN_VERSION_MAX else "no version at all"
            return Death(UNKNOWN_SCHEMA_VERSION, f"schema_version is {shown}, known is {known}")
        for name in self.type.required:
            value = found.get(name)
            if value is None or value == "":
                return Death(MISSING_FIELD, f"{name} is {'missing' if name not in found else 'empty'}")
        for name in self.type.fields:
            value = found.get(name)
            if value is not None:
                death = self._fault_of_field(name, value)
                if death is not None:
                    return death
        return None

    def _fault_of_field(self, name: str, value: Any) -> Death | None:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if name in INTEGER_FIELDS:
            if not is_integer:
                return Death(WRONG_TYPE, f"{name}: expected a whole number, found {_name(value)}")
            if not LONG_MIN <= value <= LONG_MAX:
                return Death(WRONG_TYPE, f"{name}: expected a whole number of 64 bits")
            if value < 0 and name not in SIGNED_FIELDS:
                return Death(NEGATIVE, f"{name} is below zero")
        elif not isinstance(value, str) and not (name == "slot" and is_integer):
            return Death(WRONG_TYPE, f"{name}: expected text, found {_name(value)}")
        if name == "event_type" and value != self.type.topic.event_type:
            return Death(WRONG_TYPE, f"event_type: expected {self.type.topic.event_type}, found another")
        return None

    def _without_phones(self, value: Any, path: str = "") -> Any:
        """Phone numbers in undeclared fields are phone numbers too, and so are values below such a field.

        `path` are the names that lead to the value.
        """
        if isinstance(value, dict):
            return {name: self._without_phones(each, f"{path}.{name}") for name, each in value.items()}
        if isinstance(value, list):
            return [self._without_phones(each, path) for each in value]
        if isinstance(value, str | int) and not isinstance(value, bool) and _is_phone(path, str(value)):
            return self._hash_phone(str(value))
        return value


def _is_too_deep(value: bytes) -> bool:
    if value.count(b"[") + value.count(b"{") <= _NESTING_MAX:
        return False
    depth = 0
    for found in _TEXT_OR_BRACKET.finditer(value):
        first = value[found.start()]
        if first in b"[{":
            depth += 1
            if depth > _NESTING_MAX:
                return True
        elif first in b"]}":
            depth -= 1
    return False


def _is_phone(path: str, text: str) -> bool:
    if _PHONE_NAME.search(path):
        return True
    if not text.startswith("+") and not _LIKELY_NAME.search(path):
        return False
    return _NUMBER_FORM.fullmatch(text.strip()) is not None


def _name(value: Any) -> str:
    if value is None:
        return "null"
    return _JSON_NAMES.get(type(value), "a number")
