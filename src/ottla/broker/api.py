"""Dispatches each frame to its handler. The table in `handlers/served.py` says which APIs there are.

Two kinds of handlers: a hot one (Produce, Fetch) takes the raw frame and gives the packed answer; every other takes a
decoded request message and gives a response message, or a `Reply` from `RequestContext.defer`.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.exchange import Answer, Deferred, Peer
from ottla.protocol.apis import ApiKey, request_class
from ottla.protocol.codec import decode, encode_response
from ottla.protocol.frames import RequestHeader, parse_request_header
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

# Api key and version as one number, then the correlation id: the same in every version of the header.
_HEAD = Struct(">Ii")
_HEAD_BYTES = _HEAD.size
_unpack_head = _HEAD.unpack_from


class RequestContext:
    """What a handler may know about the request beyond its body; lives as long as the request."""

    __slots__ = ("client_id", "correlation_id", "now_ms", "on_response", "peer", "version")

    def __init__(self, header: RequestHeader, peer: Peer, now_ms: int) -> None:
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.peer = peer
        self.now_ms = now_ms
        # Set where metrics are on: sees every response that is sent later.
        self.on_response: Callable[[Any], None] | None = None

    def defer(self, *, holds: bool = True) -> "Reply":
        """Answer later; see `Deferred` for what `holds` does."""
        return Reply(self, holds=holds)


class Reply:
    """The place of a response message that is not known yet."""

    __slots__ = ("_correlation_id", "_on_response", "_version", "deferred")

    def __init__(self, context: RequestContext, *, holds: bool) -> None:
        self._version = context.version
        self._correlation_id = context.correlation_id
        self._on_response = context.on_response
        self.deferred = Deferred(holds=holds)

    def send(self, response: Any) -> None:
        if self._on_response is not None:
            self._on_response(response)
        self.deferred.complete(encode_response(response, self._version, self._correlation_id))


# (frame, api version, correlation id, peer) -> the answer; the rest of the header is left to the handler.
HotHandler: TypeAlias = Callable[[memoryview, int, int, Peer], "Answer | Deferred | None"]
MessageHandler: TypeAlias = Callable[[Any, RequestContext], Any]

# When a handler is made and its module imported: APIs that few clients use must not slow down the start.
AT_START: Final = True
ON_FIRST_REQUEST: Final = False


class HotApi(NamedTuple):
    """One row of the table of served APIs, with a handler of frames."""

    key: ApiKey
    min_version: int
    max_version: int
    make: Callable[[], HotHandler]
    is_made_at_start: bool


class MessageApi(NamedTuple):
    """One row of the table of served APIs, with a handler of messages."""

    key: ApiKey
    min_version: int
    max_version: int
    make: Callable[[], MessageHandler]
    is_made_at_start: bool


Api: TypeAlias = HotApi | MessageApi


class Dispatcher:
    """Takes every frame of every connection to its handler; the network calls it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._apis: dict[int, Api] = {}
        self._between_brokers: dict[int, Api] = {}  # on the inter-broker listener only
        self._inter_broker_listener = ""
        self._hot: dict[int, HotHandler] = {}  # by api key and version as one number
        self._handlers: dict[ApiKey, MessageHandler] = {}
        self._request_classes: dict[ApiKey, type[ApiMessage]] = {}  # imported with the first request

    def serve(self, apis: Iterable[Api]) -> None:
        """Called once, with the whole table."""
        for api in apis:
            self._apis[api.key] = api
            if not api.is_made_at_start:
                continue
            if isinstance(api, HotApi):
                self._make_hot(api)
            else:
                self._make(api)

    def serve_brokers(self, apis: Iterable[Api], listener_name: str) -> None:
        """APIs that the brokers of a cluster use among each other: on other listeners they are unknown."""
        self._between_brokers = {api.key: api for api in apis}
        self._inter_broker_listener = listener_name

    def advertised(self, listener_name: str | None = None) -> list[ApiVersion]:
        """The table as ApiVersions answers it on that listener; without one, all that is served on any."""
        served = self._apis
        if listener_name is None or listener_name == self._inter_broker_listener:
            served = {**served, **self._between_brokers}
        return [
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in (served[key] for key in sorted(served))
        ]

    def __call__(self, frame: memoryview, peer: Peer) -> Answer | Deferred | None:
        if len(frame) < _HEAD_BYTES:
            raise ProtocolViolation(f"a frame of {len(frame)} bytes is shorter than a request header")
        key_and_version, correlation_id = _unpack_head(frame)
        handle_frame = self._hot.get(key_and_version)
        if handle_frame is not None:
            return handle_frame(frame, key_and_version & 0xFFFF, correlation_id, peer)
        return self._dispatch_message(key_and_version >> 16, key_and_version & 0xFFFF, correlation_id, frame, peer)

    def _dispatch_message(
        self, api_key: int, version: int, correlation_id: int, frame: memoryview, peer: Peer
    ) -> Answer | Deferred | None:
        api = self._apis.get(api_key)
        if api is None and peer.listener_name == self._inter_broker_listener:
            api = self._between_brokers.get(api_key)
        if api is None:
            raise ProtocolViolation(f"api key {api_key} is not served")
        if not api.min_version <= version <= api.max_version:
            if api_key == ApiKey.API_VERSIONS:
                return self._unsupported_api_versions(correlation_id)
            raise ProtocolViolation(
                f"{api.key.name} version {version} is not served, {api.min_version} to {api.max_version} are"
            )
        if isinstance(api, HotApi):  # its first request, or it would be among the hot ones
            return self._make_hot(api)(frame, version, correlation_id, peer)
        handle = self._handlers.get(api.key) or self._make(api)
        header = parse_request_header(frame)
        request = decode(self._request_class_of(api.key), version, frame[header.body_position :])
        response = handle(request, RequestContext(header, peer, self._clock()))
        if isinstance(response, Reply):
            return response.deferred
        return encode_response(response, version, correlation_id)

    def _make_hot(self, api: HotApi) -> HotHandler:
        handle_frame = self._wrap_hot(api.key, api.make())
        for version in range(api.min_version, api.max_version + 1):
            self._hot[api.key << 16 | version] = handle_frame
        return handle_frame

    def _make(self, api: MessageApi) -> MessageHandler:
        handle = self._handlers[api.key] = self._wrap(api.key, api.make())
        return handle

    def _wrap_hot(self, key: ApiKey, handle_frame: HotHandler) -> HotHandler:
        """For a dispatcher that measures its handlers."""
        return handle_frame

    def _wrap(self, key: ApiKey, handle: MessageHandler) -> MessageHandler:
        return handle

    def _request_class_of(self, key: ApiKey) -> type[ApiMessage]:
        found = self._request_classes.get(key)
        if found is None:
            found = self._request_classes[key] = request_class(key)
        return found

    def _unsupported_api_versions(self, correlation_id: int) -> bytes:
        # KIP-511: a client newer than us must be able to read this answer, so it has the oldest form and our range.
        own = [entry for entry in self.advertised() if entry.api_key == ApiKey.API_VERSIONS]
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
        return encode_response(response, 0, correlation_id)
