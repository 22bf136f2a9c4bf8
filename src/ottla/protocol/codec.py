"""Encodes and decodes messages of every API except the two hot ones (see `produce_codec` and `fetch_codec`).

The first use of a message class and version compiles a decoder or an encoder: straight-line Python generated from the
class's FIELDS, which reads and writes adjacent fixed-size values as one struct.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.core.errors import ProtocolViolation
from ottla.core.types import Buffer
from ottla.protocol.compiler import compile_decoder, compile_encoder
from ottla.protocol.frames import finish_frame, has_flexible_response_header, start_request, start_response
from ottla.protocol.message import ApiMessage, EncodedStruct, Message, VersionedMessage
from ottla.protocol.primitives import MAX_ELEMENTS, Reader

M = TypeVar("M", bound=VersionedMessage)
ResponseT = TypeVar("ResponseT", bound=ApiMessage)

_decoders: dict[tuple[type[VersionedMessage], int], Callable[[Reader], Any]] = {}
_encoders: dict[tuple[type[VersionedMessage], int], Callable[[bytearray, Any], None]] = {}
_struct_encoders: dict[tuple[type[Message], int], Callable[[bytearray, Any], None]] = {}


def decode(message_class: type[M], version: int, source: Reader | Buffer) -> M:
    """Read a message; bytes after it are ignored, as in Kafka. Invalid bytes raise ProtocolViolation."""
    decoder = _decoders.get((message_class, version))
    if decoder is None:
        _check_version(message_class, version)
        decoder = compile_decoder(message_class, version, is_flexible=version >= message_class.FLEXIBLE_SINCE)
        _decoders[message_class, version] = decoder
    reader = source if isinstance(source, Reader) else Reader(source)
    try:
        message: M = decoder(reader)
    except ProtocolViolation as violation:
        raise ProtocolViolation(f"{message_class.__name__} v{version}: {violation}") from violation
    return message


def encode(message: VersionedMessage, version: int) -> bytes:
    """The bytes of a message in that version, without the fields that the version doesn't have."""
    out = bytearray()
    encode_into(out, message, version)
    return bytes(out)


def encode_into(out: bytearray, message: VersionedMessage, version: int) -> None:
    """Append the bytes of a message to `out`."""
    message_class = type(message)
    encoder = _encoders.get((message_class, version))
    if encoder is None:
        _check_version(message_class, version)
        encoder = compile_encoder(message_class, version, is_flexible=version >= message_class.FLEXIBLE_SINCE)
        _encoders[message_class, version] = encoder
    encoder(out, message)


def encode_struct(struct: Message, version: int, *, within: type[VersionedMessage]) -> EncodedStruct:
    """The bytes of a struct as an array element of the message `within` in that version."""
    struct_class = type(struct)
    is_flexible = version >= within.FLEXIBLE_SINCE
    encoder = _struct_encoders.get((struct_class, version))
    if encoder is None:
        encoder = compile_encoder(struct_class, version, is_flexible=is_flexible)
        _struct_encoders[struct_class, version] = encoder
    out = bytearray()
    encoder(out, struct)
    return EncodedStruct(bytes(out), error_code=getattr(struct, "error_code", 0))


def encode_request(message: ApiMessage, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request frame, its 4-byte size included."""
    out = start_request(message.API_KEY, version, correlation_id, client_id)
    encode_into(out, message, version)
    return finish_frame(out)


def encode_response(message: ApiMessage, version: int, correlation_id: int) -> bytes:
    """A whole response frame, its 4-byte size included."""
    out = start_response(message.API_KEY, version, correlation_id)
    encode_into(out, message, version)
    return finish_frame(out)


def decode_response(response_class: type[ResponseT], version: int, frame: Buffer) -> tuple[int, ResponseT]:
    """Correlation id and message of a response frame, given without its size.

    The peer is a broker that we chose: only its size bounds it, so that the metadata of a large cluster passes.
    """
    reader = Reader(frame, max_elements=max(MAX_ELEMENTS, len(frame)))
    correlation_id = reader.int32()
    if has_flexible_response_header(response_class.API_KEY, version):
        reader.skip_tagged_fields()
    return correlation_id, decode(response_class, version, reader)


def _check_version(message_class: type[VersionedMessage], version: int) -> None:
    first, last = message_class.VERSIONS
    if not first <= version <= last:
        raise ValueError(f"{message_class.__name__} has versions {first} to {last}, not {version}")
