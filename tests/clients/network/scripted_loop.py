"""The real links and wires of a client on channels that the test holds: it connects, answers and cuts them by hand."""

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from ottla.clients.errors import ClientError
from ottla.clients.network.base import BaseNetwork
from ottla.core.types import BrokerId, Buffer
from ottla.links.addresses import Address
from ottla.links.settings import NetworkSettings
from ottla.links.wire import Wire
from ottla.protocol.apis import ApiKey, request_class
from ottla.protocol.codec import decode, encode_response
from ottla.protocol.frames import RequestHeader, parse_request_header
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.clients.fake_network import FakeTimer

SERVED = ((ApiKey.METADATA, 0, 12), (ApiKey.HEARTBEAT, 0, 4), (ApiKey.API_VERSIONS, 0, 3), (ApiKey.PRODUCE, 0, 9))


def versions_response(*served: tuple[int, int, int], error_code: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in served]
    return ApiVersionsResponse(api_keys=keys, error_code=error_code)


class ScriptedChannel:
    """One connection as the broker's side sees it."""

    def __init__(self, address: Address, wire: Wire) -> None:
        self.address = address
        self.wire = wire
        self.is_closed = False
        self.requests: list[tuple[RequestHeader, Any]] = []  # not answered yet

    def send(self, parts: Sequence[Buffer]) -> None:
        assert not self.is_closed, "sent over a closed connection"
        frame = memoryview(b"".join(parts))[4:]
        header = parse_request_header(frame)
        message = decode(request_class(header.api_key), header.api_version, frame[header.body_position :])
        self.requests.append((header, message))

    def close(self) -> None:
        self.is_closed = True

    def accept(self) -> "ScriptedChannel":
        """Connect, and say what is served."""
        self.wire.connected()
        self.answer(versions_response(*SERVED))
        return self

    def answer(self, response: ApiMessage) -> None:
        """To the oldest request."""
        header, _ = self.requests.pop(0)
        self.feed(encode_response(response, header.api_version, header.correlation_id))

    def feed(self, data: bytes, *, chunk_bytes: int = 1 << 30) -> None:
        while data and not self.is_closed:
            buffer = self.wire.buffer()
            count = min(len(buffer), len(data), chunk_bytes)
            buffer[:count] = data[:count]
            self.wire.received(count)
            data = data[count:]

    def cut(self, reason: str = "the broker closed the connection") -> None:
        self.wire.lost(reason)


class ScriptedLoop(BaseNetwork):
    def __init__(self, bootstrap: str = "one:1", **settings: int) -> None:
        super().__init__(bootstrap, client_id="test", settings=NetworkSettings(**settings))
        self.channels: list[ScriptedChannel] = []
        self.lost: list[BrokerId] = []
        self.on_lost.append(self.lost.append)
        self._now_ms = 1_000
        self._timers: list[tuple[int, int, FakeTimer]] = []
        self._order = 0

    def now_ms(self) -> int:
        return self._now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self._now_ms + delay_ms, callback)
        self._order += 1
        heapq.heappush(self._timers, (timer.at_ms, self._order, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    def open(self, address: Address, wire: Wire) -> ScriptedChannel:
        self.channels.append(ScriptedChannel(address, wire))
        return self.channels[-1]

    def advance(self, delay_ms: int = 0) -> None:
        until_ms = self._now_ms + delay_ms
        steps = 0
        while self._timers and self._timers[0][0] <= until_ms:
            at_ms, _, timer = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, at_ms)
            if timer.callback is not None:
                timer.callback()
            steps += 1
            assert steps < 10_000, "a loop without a wait"
        self._now_ms = until_ms

    @property
    def last(self) -> ScriptedChannel:
        return self.channels[-1]

    def heartbeat(self, broker_id: BrokerId, *, timeout_ms: int | None = None, group: str = "g") -> "Outcome":
        """A request for the tests that don't care which."""
        outcome = Outcome()
        message = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        self.request(broker_id, message, outcome, timeout_ms=timeout_ms)
        return outcome


class Outcome:
    """What a request came to; a second call back is a bug."""

    def __init__(self) -> None:
        self.is_done = False
        self.value: Any = None

    def __call__(self, value: Any) -> None:
        assert not self.is_done, f"called back twice: {self.value!r}, then {value!r}"
        self.is_done = True
        self.value = value

    @property
    def error(self) -> ClientError:
        assert isinstance(self.value, ClientError), f"no error: {self.value!r}"
        return self.value

    @property
    def is_answered(self) -> bool:
        return isinstance(self.value, HeartbeatResponse)
