"""Request and response headers: decoding those of requests, encoding those of the frames that we send."""

from struct import Struct
from typing import Final, NamedTuple

from ottla.core.errors import ProtocolViolation
from ottla.protocol.apis import FLEXIBLE_SINCE, ApiKey
from ottla.protocol.primitives import INT32, Reader

_HEADER: Final = Struct(">hhih")
_START: Final = Struct(">ihhih")
_START_RESPONSE: Final = Struct(">ii")
_KNOWN_KEYS: Final = len(FLEXIBLE_SINCE)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_API_VERSIONS_NEWEST: Final = 4
_unpack_header: Final = _HEADER.unpack_from
_new: Final = tuple.__new__  # less than half the time of RequestHeader(...)


class RequestHeader(NamedTuple):
    """Versions 1 and 2 of Kafka's request header. The frame is without its 4-byte size."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def parse_request_header(frame: memoryview) -> RequestHeader:
    """Read the header. Of an unknown version of ApiVersions, read only what the answer needs."""
    size = len(frame)
    if size < 10:
        raise ProtocolViolation(f"request of {size} bytes, shorter than its header")
    api_key, api_version, correlation_id, client_id_length = _unpack_header(frame)
    if not 0 <= api_key < _KNOWN_KEYS:
        raise ProtocolViolation(f"unknown api key {api_key}")
    if api_key == _API_VERSIONS and not 0 <= api_version <= _API_VERSIONS_NEWEST:
        # A client that asks for our versions can't know them yet: it gets an answer (KIP-511), and we ignore its body.
        return _new(RequestHeader, (api_key, api_version, correlation_id, None, size))
    position = 10
    client_id = None
    if client_id_length >= 0:
        position += client_id_length
        if position > size:
            raise ProtocolViolation(f"client id of {client_id_length} bytes in a request of {size} bytes")
        try:
            client_id = str(frame[10:position], "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolViolation("client id is not UTF-8") from error
    elif client_id_length != -1:
        raise ProtocolViolation(f"client id of {client_id_length} bytes")
    if api_version >= FLEXIBLE_SINCE[api_key]:
        if position < size and frame[position] == 0:
            position += 1
        else:
            reader = Reader(frame, position)
            reader.skip_tagged_fields()
            position = reader.position
    return _new(RequestHeader, (api_key, api_version, correlation_id, client_id, position))


def start_request(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    """A request frame up to its body; `finish_frame` fills in the size."""
    client = b"" if client_id is None else client_id.encode()
    # The client id keeps its old form in the flexible header, so that every broker can read it.
    length = -1 if client_id is None else len(client)
    out = bytearray(_START.pack(0, api_key, version, correlation_id, length))
    out += client
    if version >= FLEXIBLE_SINCE[api_key]:
        out.append(0)
    return out


def start_response(api_key: int, version: int, correlation_id: int) -> bytearray:
    """A response frame up to its body; `finish_frame` fills in the size."""
    out = bytearray(_START_RESPONSE.pack(0, correlation_id))
    if has_flexible_response_header(api_key, version):
        out.append(0)
    return out


def finish_frame(frame: bytearray) -> bytes:
    INT32.pack_into(frame, 0, len(frame) - 4)
    return bytes(frame)


def has_flexible_response_header(api_key: int, version: int) -> bool:
    """Response header v1 instead of v0. ApiVersions stays at v0: its reader doesn't know our versions yet."""
    return version >= FLEXIBLE_SINCE[api_key] and api_key != _API_VERSIONS
