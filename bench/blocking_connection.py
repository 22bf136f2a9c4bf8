"""One blocking connection to one broker, for measuring single requests: no client loop, no retries, nothing beside
them.

Framing, correlation ids, versions agreed on by ApiVersions; the clients' own way is `ottla.clients.network`.
"""

import socket
import time
from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeVar

from ottla import __version__
from ottla.clients.errors import ConnectionFailed, UnsupportedByBroker, check
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import Buffer
from ottla.links.addresses import Address
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

DEFAULT_CLIENT_ID: Final = "ottla"
CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000
FRAME_BYTES_MAX: Final = 512 * 1024 * 1024

_SIZE: Final = Struct(">i")
_CORRELATION_ID_MAX: Final = 2**31 - 1
# The oldest version with the client's name in it; a broker that is older says so and names what it has (KIP-511).
_API_VERSIONS_FIRST_TRY: Final = 3

ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class Connection:
    """Open from its making until `close` or its first failure, after which it is closed and never reused.

    One owner; requests are answered one at a time by `request`. Who wants several in flight takes `socket` over and
    uses `next_correlation_id` and `version_for`.
    """

    __slots__ = ("_correlation_id", "_versions", "address", "client_id", "request_timeout_ms", "socket")

    def __init__(
        self,
        address: Address,
        *,
        client_id: str = DEFAULT_CLIENT_ID,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self.address = address
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self.socket = socket.create_connection(address, timeout=connect_timeout_ms / 1000)
        except OSError as error:
            raise ConnectionFailed(f"{address}: not reached: {error.strerror or error}") from error
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._agree_on_versions()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self.socket.fileno() >= 0

    def close(self) -> None:
        self.socket.close()

    def version_for(self, api_key: int, ours: tuple[int, int]) -> int:
        """The highest version that both sides speak."""
        theirs = self._versions.get(api_key)
        if theirs is None:
            raise UnsupportedByBroker(f"{self.address}: the broker does not serve {ApiKey(api_key).name}")
        version = min(ours[1], theirs[1])
        if version < max(ours[0], theirs[0]):
            raise UnsupportedByBroker(
                f"{self.address}: {ApiKey(api_key).name} is served in versions {theirs[0]} to {theirs[1]}, "
                f"this client speaks {ours[0]} to {ours[1]}"
            )
        return version

    def serves(self, api_key: int) -> bool:
        return api_key in self._versions

    def next_correlation_id(self) -> int:
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        return correlation_id

    def request(
        self,
        message: ApiMessage,
        response_class: type[ResponseT],
        *,
        version: int | None = None,
        extra_wait_ms: int = 0,
    ) -> ResponseT:
        """Send and wait for the answer. `extra_wait_ms` is what the broker itself was allowed to wait."""
        if version is None:
            version = self.version_for(message.API_KEY, message.VERSIONS)
        correlation_id = self.next_correlation_id()
        self.send([encode_request(message, version, correlation_id, self.client_id)])
        frame = self.receive(correlation_id, extra_wait_ms=extra_wait_ms)
        return self._decode(response_class, version, frame)

    def send(self, parts: Sequence[Buffer]) -> None:
        """Write a whole frame, given in parts."""
        try:
            self.socket.settimeout(self.request_timeout_ms / 1000)
            for part in parts:
                self.socket.sendall(part)
        except OSError as error:
            raise self._broken(f"sending failed: {error.strerror or error}") from error

    def receive(self, correlation_id: int, *, extra_wait_ms: int = 0) -> memoryview:
        """The next frame, which must be the answer to that request; without its size."""
        deadline = time.monotonic() + (self.request_timeout_ms + extra_wait_ms) / 1000
        (size,) = _SIZE.unpack(self._receive_exactly(4, deadline))
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise self._broken(f"an answer of {size} bytes was announced; is this a Kafka broker?")
        frame = self._receive_exactly(size, deadline)
        (seen,) = _SIZE.unpack_from(frame)
        if seen != correlation_id:
            raise self._broken(f"answer {seen} came, {correlation_id} was expected")
        return memoryview(frame)

    def _receive_exactly(self, size: int, deadline: float) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        done = 0
        while done < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._broken(f"no answer within {self.request_timeout_ms} ms")
            try:
                self.socket.settimeout(left)
                count = self.socket.recv_into(view[done:])
            except TimeoutError:
                continue
            except OSError as error:
                raise self._broken(f"receiving failed: {error.strerror or error}") from error
            if count == 0:
                raise self._broken("the broker closed the connection")
            done += count
        return buffer

    def _agree_on_versions(self) -> None:
        version = _API_VERSIONS_FIRST_TRY
        for _ in range(2):
            correlation_id = self.next_correlation_id()
            ask = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
            self.send([encode_request(ask, version, correlation_id, self.client_id)])
            frame = self.receive(correlation_id)
            # Whatever was asked for, this error comes in a body of version 0.
            is_refused = len(frame) >= 6 and int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
            answer = self._decode(ApiVersionsResponse, 0 if is_refused else version, frame)
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            if not is_refused:
                check(answer.error_code, f"{self.address}: ApiVersions")
                return
            version = min(version, self._versions.get(ApiKey.API_VERSIONS, (0, 0))[1])
        raise UnsupportedByBroker(f"{self.address}: the broker refuses every version of ApiVersions")

    def _decode(self, response_class: type[ResponseT], version: int, frame: memoryview) -> ResponseT:
        try:
            return decode_response(response_class, version, frame)[1]
        except ProtocolViolation as violation:
            raise self._broken(f"unreadable answer: {violation}") from violation

    def _broken(self, reason: str) -> ConnectionFailed:
        self.close()
        return ConnectionFailed(f"{self.address}: {reason}")
