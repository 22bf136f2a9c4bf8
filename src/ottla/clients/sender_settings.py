"""How records are sent, and what Kafka's producer calls each of it."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from ottla.records.compression import NONE, codec_named

ACKS_ALL: Final = -1
_ACKS: Final = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": 0, "1": 1}


class SenderSettings(NamedTuple):
    """How to send; the names are those of Kafka's producer."""

    acks: int = ACKS_ALL
    codec: int = NONE
    batch_size: int = 64 * 1024
    linger_ms: int = 5
    buffer_memory: int = 32 * 1024 * 1024
    max_request_size: int = 1024 * 1024
    max_in_flight: int = 5
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    enable_idempotence: bool = True


# Kafka's name and, where it differs, librdkafka's -> the field.
_FIELDS: Final = {
    "acks": "acks",
    "request.required.acks": "acks",
    "compression.type": "codec",
    "compression.codec": "codec",
    "batch.size": "batch_size",
    "linger.ms": "linger_ms",
    "queue.buffering.max.ms": "linger_ms",
    "buffer.memory": "buffer_memory",
    "max.request.size": "max_request_size",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "max.in.flight": "max_in_flight",
    "request.timeout.ms": "request_timeout_ms",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "message.timeout.ms": "delivery_timeout_ms",
    "enable.idempotence": "enable_idempotence",
}
_MAY_BE_ZERO: Final = frozenset({"linger_ms"})


def with_properties(settings: SenderSettings, properties: Mapping[str, str]) -> SenderSettings:
    """Settings changed by Kafka's dotted names; ValueError says which is wrong and what was expected."""
    changes: dict[str, int | bool] = {}
    for name, text in properties.items():
        field = _FIELDS.get(name)
        if field is None:
            near = get_close_matches(name, _FIELDS, n=1)
            raise ValueError(f"no property {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        changes[field] = _parsed(name, field, text.strip())
    return settings._replace(**changes)  # type: ignore[arg-type]  # each checked in `_parsed`


def _parsed(name: str, field: str, text: str) -> int | bool:
    if field == "acks":
        if text not in _ACKS:
            raise ValueError(f"{name}={text}: expected all, -1, 0 or 1")
        return _ACKS[text]
    if field == "codec":
        return codec_named(text)
    if field == "enable_idempotence":
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name}={text}: expected true or false")
        return text.lower() == "true"
    lowest = 0 if field in _MAY_BE_ZERO else 1
    if not text.isdecimal() or int(text) < lowest:
        raise ValueError(f"{name}={text}: expected a number from {lowest} on")
    return int(text)
