"""One event of the app: its envelope, and its bytes on a topic.

Every event is a flat JSON object: the fields of the envelope first, then those of its topic's payload.
"""

import json
from typing import Final, NamedTuple

SCHEMA_VERSION: Final = 1

ENVELOPE: Final = (
    "event_id",
    "event_type",
    "schema_version",
    "event_time",
    "account_id",
    "device_id",
    "fingerprint",
    "ip",
    "app_version",
)

# Shared: `json.dumps` with these settings would create an encoder for each event.
_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode


class Event(NamedTuple):
    """An event to send: `value` is the object to encode, or raw bytes for an event that is broken on purpose."""

    topic: str
    key: str
    value: dict[str, object] | bytes
    event_time_ms: int


def encode_value(event: Event) -> bytes:
    """The record's value, UTF-8 JSON."""
    value = event.value
    return value if isinstance(value, bytes) else _encode(value).encode()


def json_line(event: Event) -> str:
    """The event as one line of a file; raw bytes become a string, since they are not JSON."""
    value = event.value
    shown = value.decode(errors="replace") if isinstance(value, bytes) else value
    return _encode({"topic": event.topic, "key": event.key, "value": shown})
