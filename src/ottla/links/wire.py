"""One connection as bytes in and bytes out: frames, correlation ids, and the versions negotiated at its start.

No socket and no clock: a channel carries the bytes; `link.py` decides when to open, what to send and when to time out.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from struct import Struct
from typing import Final, Protocol, TypeAlias

from ottla import __version__
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import BrokerId, Buffer
from ottla.links.errors import ClientError, ConnectionFailed, UnsupportedByBroker, error_name
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

FRAME_BYTES_MAX: Final = 512 * 1024 * 1024
# The first buffer for reads; a frame larger than half of it gets its own memory, and the socket writes there directly.
SCRATCH_BYTES: Final = 64 * 1024

# Memory of frames up to this size is reused when no view of the frame is left: new memory comes zeroed and page by
# page, which costs a consumer at full speed a tenth of its time.
_SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
_SPARES_MAX: Final = 3  # one is being decoded, one waits, one arrives

NOT_CHOSEN: Final[BrokerId] = -1

_SIZE: Final = Struct(">i")
_CORRELATION_ID_MAX: Final = 2**31 - 1
# The oldest version that has the client's name; an older broker refuses it and lists its versions (KIP-511).
_API_VERSIONS_FIRST_TRY: Final = 3

Encode: TypeAlias = Callable[[int, int, str], Sequence[Buffer]]
OnFrame: TypeAlias = Callable[[int, memoryview | ClientError], None]


class Channel(Protocol):
    """A socket for a wire. These methods never call back before they return."""

    def send(self, parts: Sequence[Buffer]) -> None:
        """Take all bytes; they are sent as fast as the peer takes them."""
        ...

    def close(self) -> None: ...


class InFlightRequest:
    """One request: how to encode it, who gets the answer, and its deadline."""

    __slots__ = (
        "api_key",
        "broker_id",
        "correlation_id",
        "deadline_ms",
        "encode",
        "expects_response",
        "on_frame",
        "timeout_ms",
        "tried",
        "version",
        "versions",
    )

    def __init__(
        self,
        api_key: int,
        encode: Encode,
        on_frame: OnFrame,
        *,
        versions: tuple[int, int],
        timeout_ms: int,
        expects_response: bool,
    ) -> None:
        self.api_key = api_key
        self.encode = encode
        self.on_frame = on_frame
        self.versions = versions
        self.timeout_ms = timeout_ms
        self.expects_response = expects_response
        self.broker_id: BrokerId = NOT_CHOSEN  # the broker whose link it went to
        self.deadline_ms = 0
        self.version = versions[1]
        self.correlation_id = -1
        # If any broker may answer: those that were tried so far, with the outcome of each. Else None.
        self.tried: dict[int, str] | None = None

    @property
    def name(self) -> str:
        return ApiKey(self.api_key).name


class WireState(Enum):
    CONNECTING = "connecting"
    AGREEING = "negotiating versions"
    READY = "ready"
    CLOSED = "closed"


class Wire:
    """Lives as long as its connection. It calls `on_ready` and `on_lost` at most once each, never after `close`."""

    __slots__ = (
        "_channel",
        "_client_id",
        "_correlation_id",
        "_end",
        "_large_filled",
        "_large_view",
        "_on_lost",
        "_on_ready",
        "_scratch",
        "_scratch_view",
        "_spares",
        "_versions_asked",
        "address",
        "in_flight",
        "state",
        "versions",
    )

    def __init__(
        self,
        address: str,
        *,
        client_id: str,
        on_ready: Callable[[], None],
        on_lost: Callable[[ClientError], None],
    ) -> None:
        self.address = address
        self.state = WireState.CONNECTING
        self.in_flight: deque[InFlightRequest] = deque()
        self.versions: dict[int, tuple[int, int]] = {}
        self._client_id = client_id
        self._on_ready = on_ready
        self._on_lost = on_lost
        self._channel: Channel | None = None
        self._correlation_id = 0
        self._versions_asked = _API_VERSIONS_FIRST_TRY
        self._scratch = bytearray(SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._end = 0
        self._large_view: memoryview | None = None
        self._large_filled = 0
        self._spares: deque[bytearray] = deque()

    # For the link.

    def attach(self, channel: Channel) -> None:
        self._channel = channel

    def close(self) -> None:
        """Close the connection and call nothing back; the caller handles the requests in flight."""
        self.state = WireState.CLOSED
        if self._channel is not None:
            self._channel.close()

    def version_for(self, api_key: int, ours: tuple[int, int]) -> int | UnsupportedByBroker:
        """The highest version that both sides support, or why there is none."""
        theirs = self.versions.get(api_key)
        if theirs is None:
            return UnsupportedByBroker(f"{self.address}: the broker does not serve {ApiKey(api_key).name}")
        version = min(ours[1], theirs[1])
        if version < max(ours[0], theirs[0]):
            return UnsupportedByBroker(
                f"{self.address}: {ApiKey(api_key).name} is served in versions {theirs[0]} to {theirs[1]}, "
                f"this client supports {ours[0]} to {ours[1]}"
            )
        return version

    def send(self, request: InFlightRequest) -> None:
        """Encode and send, in the version that the request has by now."""
        assert self.state is WireState.READY and self._channel is not None
        request.correlation_id = correlation_id = self._next_correlation_id()
        self._channel.send(request.encode(request.version, correlation_id, self._client_id))
        if request.expects_response:
            self.in_flight.append(request)

    # For the channel.

    def connected(self) -> None:
        self.state = WireState.AGREEING
        self._ask_for_versions()

    def buffer(self) -> memoryview:
        """The buffer for the next bytes; never empty."""
        if self._large_view is not None:
            return self._large_view[self._large_filled :]
        return self._scratch_view[self._end :]

    def received(self, count: int) -> None:
        """`count` bytes are in `buffer`; pass on every frame that is complete now."""
        frame = self._large_view
        if frame is not None:
            self._large_filled += count
            if self._large_filled == len(frame):
                self._large_view = None
                self._take(frame)
            return
        view = self._scratch_view
        position, end = 0, self._end + count
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if not 4 <= size <= FRAME_BYTES_MAX:
                self.broken(f"an answer of {size} bytes was announced; is this a Kafka broker?")
                return
            start = position + 4
            if end - start >= size:
                position = start + size
                # A copy: the receiver may keep its frame, and this buffer is reused.
                self._take(memoryview(bytes(view[start:position])))
                if self.state is WireState.CLOSED:
                    return
                continue
            if size > SCRATCH_BYTES // 2:
                large = self._memory_for(size)
                large[: end - start] = view[start:end]
                self._large_view = large
                self._large_filled = end - start
                position = end
            break
        rest = end - position
        if position and rest:
            view[:rest] = bytes(view[position:end])
        self._end = rest

    def lost(self, reason: str) -> None:
        """The socket failed or the peer closed it."""
        self.broken(reason)

    def broken(self, reason: str) -> None:
        if self.state is not WireState.CLOSED:
            self.close()
            self._on_lost(ConnectionFailed(f"{self.address}: {reason}"))

    # Inside.

    def _next_correlation_id(self) -> int:
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        return correlation_id

    def _memory_for(self, size: int) -> memoryview:
        """Memory for a large frame: that of an earlier one, or new."""
        if size > _SPARE_BYTES_MAX:
            # A mapping returns to the system with its frame; `malloc` would keep memory of that size.
            from mmap import mmap

            return memoryview(mmap(-1, size))
        spares = self._spares
        for _ in range(len(spares)):
            spare = spares.popleft()
            try:
                spare.pop()  # fails while there is a view of it
            except BufferError:
                spares.append(spare)
                continue
            spare.append(0)
            if len(spare) >= size:
                spares.append(spare)
                return memoryview(spare)[:size]
        spare = bytearray(1 << (size - 1).bit_length())
        if len(spares) < _SPARES_MAX:
            spares.append(spare)
        return memoryview(spare)[:size]

    def _take(self, frame: memoryview) -> None:
        (correlation_id,) = _SIZE.unpack_from(frame)
        if self.state is WireState.AGREEING:
            self._take_versions(correlation_id, frame)
            return
        if not self.in_flight:
            self.broken(f"answer {correlation_id} came, none was expected")
            return
        request = self.in_flight[0]
        if correlation_id != request.correlation_id:
            self.broken(f"answer {correlation_id} came, {request.correlation_id} was expected")
            return
        del self.in_flight[0]
        request.on_frame(request.version, frame)

    def _ask_for_versions(self) -> None:
        assert self._channel is not None
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
        frame = encode_request(request, self._versions_asked, self._next_correlation_id(), self._client_id)
        self._channel.send([frame])

    def _take_versions(self, correlation_id: int, frame: memoryview) -> None:
        if correlation_id != self._correlation_id:
            self.broken(f"answer {correlation_id} came, {self._correlation_id} was expected; is this a Kafka broker?")
            return
        # This error always has a body of version 0.
        is_refused = len(frame) >= 6 and int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
        try:
            _, answer = decode_response(ApiVersionsResponse, 0 if is_refused else self._versions_asked, frame)
        except ProtocolViolation as violation:
            self.broken(f"unreadable answer: {violation}")
            return
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        if is_refused:
            version = min(self._versions_asked, self.versions.get(ApiKey.API_VERSIONS, (0, 0))[1])
            if version == self._versions_asked:
                self.broken("the broker refuses every version of ApiVersions")
                return
            self._versions_asked = version
            self._ask_for_versions()
        elif answer.error_code != ErrorCode.NONE:
            self.broken(f"ApiVersions was answered with {error_name(answer.error_code)}")
        else:
            self.state = WireState.READY
            self._on_ready()
