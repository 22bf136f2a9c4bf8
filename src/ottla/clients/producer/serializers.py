"""Serializers for keys and values: callables (topic, object) -> bytes or None, with Kafka's names or the user's own.

Without a serializer bytes-like objects are sent as they are, and anything else is refused.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.clients.producer.errors import SerializationFailed

if TYPE_CHECKING:
    from uuid import UUID  # slow to import, and only used in annotations

Serializer: TypeAlias = Callable[[str, Any], bytes | None]

_PACKAGE: Final = "org.apache.kafka.common.serialization."


def serialize_string(topic: str, data: str | None) -> bytes | None:
    return None if data is None else data.encode()


def serialize_uuid(topic: str, data: "UUID | None") -> bytes | None:
    return None if data is None else str(data).encode()


def _packed(form: str) -> Serializer:
    pack = Struct(form).pack

    def serialize(topic: str, data: float | None) -> bytes | None:
        return None if data is None else pack(data)

    return serialize


# By Kafka's class name; the short form leaves "Serializer" out.
SERIALIZERS: Final[dict[str, Serializer | None]] = {
    "ByteArraySerializer": None,
    "BytesSerializer": None,
    "StringSerializer": serialize_string,
    "UUIDSerializer": serialize_uuid,
    "ShortSerializer": _packed(">h"),
    "IntegerSerializer": _packed(">i"),
    "LongSerializer": _packed(">q"),
    "FloatSerializer": _packed(">f"),
    "DoubleSerializer": _packed(">d"),
}


def serializer_named(name: str) -> Serializer | None:
    """The serializer of Kafka's class name, with or without its package; ValueError for an unknown one."""
    short = name.removeprefix(_PACKAGE)
    if short not in SERIALIZERS:
        raise ValueError(
            f"no serializer {name!r}; one of {', '.join(SERIALIZERS)}, or a callable (topic, data) -> bytes"
        )
    return SERIALIZERS[short]


def as_bytes(topic: str, part: str, data: object) -> bytes:
    """A copy of bytes-like objects, since they may change before they are sent; others raise an error with advice."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise SerializationFailed(
        f"{topic}: the {part} is a {type(data).__name__}, expected bytes; encode it, or set {part}.serializer"
    )


def serialize(serializer: Serializer, topic: str, part: str, data: object) -> bytes | None:
    """Run a serializer; whatever it raises becomes one error that names what was serialized."""
    try:
        serialized = serializer(topic, data)
    except Exception as error:  # a user's serializer may raise anything
        raise SerializationFailed(
            f"{topic}: the {part}, a {type(data).__name__}, was not serialized: {type(error).__name__}: {error}"
        ) from error
    if serialized is None or type(serialized) is bytes:
        return serialized
    if isinstance(serialized, (bytearray, memoryview)):
        return bytes(serialized)
    raise SerializationFailed(
        f"{topic}: the serializer of the {part} gave a {type(serialized).__name__}, expected bytes"
    )


def checked_headers(topic: str, headers: object) -> list[tuple[str, bytes | None]]:
    """Headers as a list of (name, bytes or None), from any iterable of pairs or a mapping."""
    checked = []
    items = headers.items() if isinstance(headers, dict) else headers
    try:
        for name, value in items:  # type: ignore[attr-defined]  # what can't be iterated is refused below
            if not isinstance(name, str):
                raise SerializationFailed(f"{topic}: a header's name is a {type(name).__name__}, expected str")
            if value is not None and type(value) is not bytes:
                value = as_bytes(topic, f"header {name!r}", value)
            checked.append((name, value))
    except (TypeError, ValueError) as error:
        raise SerializationFailed(f"{topic}: headers must be pairs of name and bytes: {error}") from error
    return checked
