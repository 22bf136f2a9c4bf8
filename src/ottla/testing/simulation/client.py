"""A process of a simulated cluster that only has connections out: for requests by hand, or for a client's core."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from ottla.clients.network.base import BaseNetwork
from ottla.clients.network.port import OnResponse
from ottla.core.types import BrokerId
from ottla.links.addresses import Address
from ottla.links.errors import ClientError
from ottla.links.settings import NetworkSettings
from ottla.links.wire import Channel, Encode, InFlightRequest, OnFrame, Wire
from ottla.protocol.message import ApiMessage
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.links import SimulatedLinks
from ottla.testing.simulation.network import SimulatedNetwork
from ottla.testing.simulation.scheduler import ProcessLoop, Scheduler, Timer

# What a wire says of an answer that no fault of the network explains; a client only connects anew.
_NOT_THE_PROTOCOL: Final = ("was expected", "unreadable answer", "was announced", "refuses every version")


class SimulatedClientNetwork(BaseNetwork):
    """Implements `clients/network/port.py` Network: a producer's, consumer's or admin's core runs on it."""

    def __init__(
        self, links: SimulatedLinks, bootstrap: str, *, client_id: str, settings: NetworkSettings, random: Random
    ) -> None:
        super().__init__(bootstrap, client_id=client_id, settings=settings, random=random)
        self._links = links

    def now_ms(self) -> int:
        return self._links.now_ms()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self._links.call_later(delay_ms, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._links.call_soon(callback)

    def post(self, callback: Callable[[], None]) -> None:
        self._links.call_soon(callback)

    def open(self, address: Address, wire: Wire) -> Channel:
        return self._links.open(address, wire)

    def _new_request(
        self,
        api_key: int,
        encode: Encode,
        on_frame: OnFrame,
        versions: tuple[int, int],
        timeout_ms: int | None,
        expects_response: bool,
    ) -> InFlightRequest:
        def on_checked_frame(version: int, frame: memoryview | ClientError) -> None:
            if isinstance(frame, ClientError) and any(sign in str(frame) for sign in _NOT_THE_PROTOCOL):
                raise BrokenRule("a broker keeps to the protocol", str(frame))
            on_frame(version, frame)

        return super()._new_request(api_key, encode, on_checked_frame, versions, timeout_ms, expects_response)


class Outcome:
    """What became of one request: `response`, or `error`."""

    __slots__ = ("error", "response")

    def __init__(self) -> None:
        self.response: Any = None
        self.error: ClientError | None = None

    @property
    def is_there(self) -> bool:
        return self.response is not None or self.error is not None

    def __call__(self, outcome: Any) -> None:
        if isinstance(outcome, ClientError):
            self.error = outcome
        else:
            self.response = outcome


class SimulatedClient:
    """Made by the cluster. It knows the brokers' addresses, and sends each request where it is told to."""

    def __init__(
        self, scheduler: Scheduler, streams: SimulatedNetwork, name: str, brokers: dict[BrokerId, Address]
    ) -> None:
        self.name = name
        self.host = streams.host(name)
        self.loop = ProcessLoop(scheduler, name, starts_at=1.0)
        self.links = SimulatedLinks(streams, self.host, self.loop)
        self.random = scheduler.random(name)
        self._brokers = brokers
        self.network = self.open_network()

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self._brokers.values()))

    def open_network(
        self, settings: NetworkSettings | None = None, *, knows_brokers: bool = True
    ) -> SimulatedClientNetwork:
        """A network of its own for a client's core; the client's own one is `network`."""
        network = SimulatedClientNetwork(
            self.links,
            self.bootstrap,
            client_id=self.name,
            settings=settings or NetworkSettings(),
            random=Random(self.random.getrandbits(64)),
        )
        if knows_brokers:
            network.set_brokers(self._brokers)
        return network

    def request(
        self,
        broker_id: BrokerId,
        message: ApiMessage,
        on_response: OnResponse | None = None,
        *,
        timeout_ms: int | None = None,
        versions: tuple[int, int] | None = None,
    ) -> Outcome:
        """Send a message to a broker. The outcome is there when it is answered or has failed, unless `on_response` gets
        it."""
        outcome = Outcome()
        on_done = on_response or outcome
        self.network.request(broker_id, message, on_done, timeout_ms=timeout_ms, versions=versions)
        return outcome

    def request_frame(
        self,
        broker_id: BrokerId,
        api_key: int,
        encode: Encode,
        decode: Callable[[int, memoryview], Any],
        *,
        versions: tuple[int, int],
        on_response: OnResponse | None = None,
        timeout_ms: int | None = None,
    ) -> Outcome:
        """As `request`, for what has a codec of its own: Produce and Fetch."""
        outcome = Outcome()
        on_done = on_response or outcome

        def on_frame(version: int, frame: memoryview | ClientError) -> None:
            on_done(frame if isinstance(frame, ClientError) else decode(version, frame))

        self.network.request_frame(broker_id, api_key, encode, on_frame, versions=versions, timeout_ms=timeout_ms)
        return outcome

    def close(self) -> None:
        """Fail what is open, and end the process."""
        self.network.brokers.close()
        self.loop.call_soon(self.loop.kill)
