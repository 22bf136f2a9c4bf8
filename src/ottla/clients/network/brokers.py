"""The brokers that a client knows, with a link to each: chooses one for a request, and handles lost connections.

Bootstrap addresses have ids below `ANY_BROKER`, and are used only while no known broker can be tried.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from ottla.clients.errors import ClientClosed, ClientError, ConnectionFailed
from ottla.clients.network.port import ANY_BROKER
from ottla.core.types import BrokerId
from ottla.links.addresses import Address
from ottla.links.link import ClientLoop, Link, failed
from ottla.links.settings import NetworkSettings
from ottla.links.wire import InFlightRequest

_FIRST_COORDINATOR: Final = 2**30
_FIRST_BOOTSTRAP: Final = ANY_BROKER - 1


class Brokers:
    """Owned by one network; runs in its client loop."""

    __slots__ = (
        "_bootstrap",
        "_client_id",
        "_is_closed",
        "_known",
        "_links",
        "_loop",
        "_random",
        "_settings",
        "on_lost",
    )

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        loop: ClientLoop,
        client_id: str,
        settings: NetworkSettings,
        random: Random | None = None,
    ) -> None:
        self.on_lost: list[Callable[[BrokerId], None]] = []
        self._loop = loop
        self._client_id = client_id
        self._settings = settings
        self._random = random  # of the waits between attempts
        self._bootstrap = {_FIRST_BOOTSTRAP - index: address for index, address in enumerate(bootstrap)}
        self._known: dict[BrokerId, Address] = {}
        self._links: dict[BrokerId, Link] = {}
        self._is_closed = False

    @property
    def bootstrap(self) -> list[Address]:
        return list(self._bootstrap.values())

    def set_known(self, brokers: Mapping[BrokerId, Address]) -> None:
        """Close links to brokers that moved or are gone; their requests fail or go to another broker."""
        self._known = dict(brokers)
        for broker_id, link in list(self._links.items()):
            is_spare = broker_id < 0 and self._known and not link.load
            if is_spare or (broker_id >= 0 and self._address_of(broker_id) != link.address):
                del self._links[broker_id]
                link.close(ConnectionFailed(f"{link.address}: broker {broker_id} is no longer at this address"))

    def send(self, broker_id: BrokerId, request: InFlightRequest) -> None:
        if self._is_closed:
            self._fail_soon(request, ClientClosed("the client is closed"))
            return
        if broker_id == ANY_BROKER:
            request.tried = {}
            self._least_loaded().send(request)
            return
        address = self._address_of(broker_id)
        if address is None:
            self._fail_soon(request, ConnectionFailed(f"broker {_node_of(broker_id)} is not in the metadata"))
        else:
            self._link_to(broker_id, address).send(request)

    def load_of(self, broker_id: BrokerId) -> int:
        link = self._links.get(broker_id)
        return link.load if link is not None else 0

    def versions_of(self, broker_id: BrokerId, api_key: int) -> tuple[int, int] | None:
        link = self._links.get(broker_id)
        return link.versions_of(api_key) if link is not None else None

    def throttle(self, broker_id: BrokerId, delay_ms: int) -> None:
        link = self._links.get(broker_id)
        if link is not None:
            link.throttle(delay_ms)

    def close(self) -> None:
        self._is_closed = True
        links = list(self._links.values())
        self._links.clear()
        for link in links:
            link.close(ClientClosed("the client is closed"))

    def _address_of(self, broker_id: BrokerId) -> Address | None:
        if broker_id < 0:
            return self._bootstrap.get(broker_id)
        return self._known.get(_node_of(broker_id))

    def _link_to(self, broker_id: BrokerId, address: Address) -> Link:
        link = self._links.get(broker_id)
        if link is None:
            link = self._links[broker_id] = Link(
                broker_id,
                address,
                loop=self._loop,
                client_id=self._client_id,
                settings=self._settings,
                on_lost=self._link_lost,
                random=self._random,
            )
        return link

    def _least_loaded(self, tried: Mapping[BrokerId, str] | None = None) -> Link:
        """The least loaded link; brokers that just failed come last."""
        now_ms = self._loop.now_ms()
        candidates = self._candidates(now_ms)
        fresh = {broker_id: address for broker_id, address in candidates.items() if not tried or broker_id not in tried}

        def rank(broker_id: BrokerId) -> tuple[int, int, int]:
            link = self._links.get(broker_id)
            if link is None:
                return (2, 0, 0)
            if link.is_ready:
                return (4 if link.is_throttled else 0, link.load, 0)
            if link.is_opening:
                return (1, link.load, 0)
            return (2, link.load, 0) if link.retry_at_ms <= now_ms else (3, 0, link.retry_at_ms)

        broker_id = min(fresh or candidates, key=rank)
        return self._link_to(broker_id, candidates[broker_id])

    def _candidates(self, now_ms: int) -> dict[BrokerId, Address]:
        """The known brokers; also the bootstrap ones while no known broker can be tried (KIP-1102)."""

        def can_be_tried(broker_id: BrokerId) -> bool:
            link = self._links.get(broker_id)
            return link is None or link.is_ready or link.is_opening or link.retry_at_ms <= now_ms

        if any(can_be_tried(broker_id) for broker_id in self._known):
            return self._known
        return {**self._known, **self._bootstrap}

    def _link_lost(
        self, link: Link, sent: list[InFlightRequest], queued: list[InFlightRequest], reason: ClientError
    ) -> None:
        for request in sent:
            self._fail_soon(request, failed(request, reason))
        for request in queued:
            if request.tried is None or self._is_closed:
                self._fail_soon(request, failed(request, reason))
            else:
                self._try_elsewhere(request, link, reason)
        if not self._is_closed and self._links.get(link.broker_id) is link:
            for listener in self.on_lost:
                self._loop.call_soon(lambda listener=listener: listener(_node_of(link.broker_id)))  # type: ignore[misc]

    def _try_elsewhere(self, request: InFlightRequest, link: Link, reason: ClientError) -> None:
        """This broker could not send a request that any broker may answer."""
        assert request.tried is not None
        request.tried[link.broker_id] = str(reason)
        another = self._least_loaded(request.tried)
        now_ms = self._loop.now_ms()
        if another.broker_id in request.tried or request.deadline_ms <= now_ms:
            reasons = "; ".join(dict.fromkeys(request.tried.values()))
            self._fail_soon(request, ConnectionFailed(f"no broker was reached for {request.name}: {reasons}"))
            return
        request.timeout_ms = request.deadline_ms - now_ms
        another.send(request)

    def _fail_soon(self, request: InFlightRequest, error: ClientError) -> None:
        self._loop.call_soon(lambda: request.on_frame(request.version, error))


def _node_of(broker_id: BrokerId) -> BrokerId:
    """The broker of an id, which may be the id of its coordinator connection."""
    return 2**31 - 1 - broker_id if broker_id >= _FIRST_COORDINATOR else broker_id
