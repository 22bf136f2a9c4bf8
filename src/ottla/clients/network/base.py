"""What all networks share: requests in, decoded answers out, over `Brokers`.

A subclass has the client loop itself (thread or event loop), its timers and its sockets.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from random import Random

from ottla.clients.errors import ClientError, ConnectionFailed
from ottla.clients.network.brokers import Brokers
from ottla.clients.network.port import OnResponse
from ottla.core.errors import ProtocolViolation
from ottla.core.types import BrokerId, Buffer
from ottla.links.addresses import Address, parse_bootstrap
from ottla.links.link import Timer
from ottla.links.settings import NetworkSettings
from ottla.links.wire import Channel, Encode, InFlightRequest, OnFrame, Wire
from ottla.protocol.apis import response_class
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.message import ApiMessage


class BaseNetwork(ABC):
    """Implements `port.Network` except for time and threads."""

    def __init__(
        self, bootstrap: str, *, client_id: str, settings: NetworkSettings, random: Random | None = None
    ) -> None:
        self.settings = settings
        self.brokers = Brokers(
            parse_bootstrap(bootstrap), loop=self, client_id=client_id, settings=settings, random=random
        )
        self.on_lost: list[Callable[[BrokerId], None]] = self.brokers.on_lost

    @abstractmethod
    def now_ms(self) -> int: ...

    @abstractmethod
    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer: ...

    @abstractmethod
    def call_soon(self, callback: Callable[[], None]) -> None: ...

    @abstractmethod
    def open(self, address: Address, wire: Wire) -> Channel: ...

    def request(
        self,
        broker_id: BrokerId,
        message: ApiMessage,
        on_response: OnResponse,
        *,
        timeout_ms: int | None = None,
        versions: tuple[int, int] | None = None,
    ) -> None:
        answer_class = response_class(message.API_KEY)

        def encode(version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
            return [encode_request(message, version, correlation_id, client_id)]

        def on_frame(version: int, frame: memoryview | ClientError) -> None:
            if isinstance(frame, ClientError):
                on_response(frame)
                return
            try:
                _, answer = decode_response(answer_class, version, frame)
            except ProtocolViolation as violation:
                on_response(ConnectionFailed(f"unreadable answer to {request.name}: {violation}"))
                return
            throttle_ms = getattr(answer, "throttle_time_ms", 0)
            if throttle_ms > 0:
                self.brokers.throttle(request.broker_id, throttle_ms)
            on_response(answer)

        request = self._new_request(message.API_KEY, encode, on_frame, versions or message.VERSIONS, timeout_ms, True)
        self.brokers.send(broker_id, request)

    def request_frame(
        self,
        broker_id: BrokerId,
        api_key: int,
        encode: Encode,
        on_frame: OnFrame,
        *,
        versions: tuple[int, int],
        timeout_ms: int | None = None,
        expects_response: bool = True,
    ) -> None:
        self.brokers.send(
            broker_id, self._new_request(api_key, encode, on_frame, versions, timeout_ms, expects_response)
        )

    def in_flight(self, broker_id: BrokerId) -> int:
        return self.brokers.load_of(broker_id)

    def serves(self, broker_id: BrokerId, api_key: int) -> tuple[int, int] | None:
        return self.brokers.versions_of(broker_id, api_key)

    def throttle(self, broker_id: BrokerId, delay_ms: int) -> None:
        self.brokers.throttle(broker_id, delay_ms)

    def set_brokers(self, brokers: Mapping[BrokerId, Address]) -> None:
        self.brokers.set_known(brokers)

    def _new_request(
        self,
        api_key: int,
        encode: Encode,
        on_frame: OnFrame,
        versions: tuple[int, int],
        timeout_ms: int | None,
        expects_response: bool,
    ) -> InFlightRequest:
        return InFlightRequest(
            api_key,
            encode,
            on_frame,
            versions=versions,
            timeout_ms=self.settings.request_timeout_ms if timeout_ms is None else timeout_ms,
            expects_response=expects_response,
        )
