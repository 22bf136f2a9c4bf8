"""Puts a link under each fetcher of replicas: requests and answers become frames of the inter-broker listener."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from ottla.core.cluster import BrokerInfo
from ottla.core.config.config import BrokerConfig
from ottla.core.errors import ProtocolViolation
from ottla.core.types import BrokerId, Buffer
from ottla.links.addresses import Address
from ottla.links.errors import ClientClosed, ClientError, ConnectionFailed
from ottla.links.link import ClientLoop, Link, failed
from ottla.links.settings import NetworkSettings
from ottla.links.wire import InFlightRequest
from ottla.protocol.apis import ApiKey
from ottla.protocol.fetch_client_codec import FetchAnswer, decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments
from ottla.replication.fetcher import FetcherSettings

# From 15 on a follower says which epoch of its registration it has (KIP-903).
_FETCH_VERSIONS: Final = (15, 16)

_OnAnswer = Callable[[FetchAnswer | ClientError], None]


def fetcher_settings_of(config: BrokerConfig) -> FetcherSettings:
    return FetcherSettings(
        max_bytes=config.get_int("replica.fetch.max.bytes"),
        min_bytes=config.get_int("replica.fetch.min.bytes"),
        wait_max_ms=config.get_int("replica.fetch.wait.max.ms"),
        response_max_bytes=config.get_int("replica.fetch.response.max.bytes"),
        backoff_ms=config.get_int("replica.fetch.backoff.ms"),
    )


class ReplicaLinks:
    """Makes the channels of a broker's fetchers; who gets one owns it."""

    def __init__(self, config: BrokerConfig, *, broker_id: BrokerId, loop: ClientLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._listener_name = config.inter_broker_listener_name()
        self._client_id = f"broker-{broker_id}-fetcher"
        self._settings = NetworkSettings(
            request_timeout_ms=config.get_int("replica.socket.timeout.ms"),
            connections_max_idle_ms=-1,
        )

    def open(self, broker: BrokerInfo) -> "ReplicaLink":
        """A channel to this broker; it connects with the first request."""
        endpoint = broker.endpoint_for(self._listener_name)
        link = None
        if endpoint is not None:
            link = Link(
                broker.broker_id,
                Address(endpoint.host, endpoint.port),
                loop=self._loop,
                client_id=self._client_id,
                settings=self._settings,
                on_lost=_on_lost,
                random=self._random,
            )
        return ReplicaLink(
            link,
            loop=self._loop,
            timeout_ms=self._settings.request_timeout_ms,
            problem=f"broker {broker.broker_id} has no listener {self._listener_name}",
        )


class ReplicaLink:
    """One `FetchChannel`: a link, if the broker has an endpoint for other brokers at all."""

    __slots__ = ("_is_closed", "_link", "_loop", "_problem", "_timeout_ms")

    def __init__(self, link: Link | None, *, loop: ClientLoop, timeout_ms: int, problem: str) -> None:
        self._link = link
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._problem = problem
        self._is_closed = False

    def send(self, arguments: FetchArguments, on_answer: _OnAnswer) -> None:
        def encode(version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
            return (encode_fetch_request(version, correlation_id, client_id, arguments),)

        def on_frame(version: int, frame: memoryview | ClientError) -> None:
            if not self._is_closed:
                on_answer(frame if isinstance(frame, ClientError) else self._decode(version, frame))

        link = self._link
        if link is None:
            self._loop.call_soon(lambda: on_frame(0, ConnectionFailed(self._problem)))
            return
        link.send(
            InFlightRequest(
                ApiKey.FETCH,
                encode,
                on_frame,
                versions=_FETCH_VERSIONS,
                timeout_ms=self._timeout_ms,
                expects_response=True,
            )
        )

    def close(self) -> None:
        self._is_closed = True
        if self._link is not None:
            self._link.close(ClientClosed("the fetcher was stopped"))

    def _decode(self, version: int, frame: memoryview) -> FetchAnswer | ClientError:
        try:
            answer = decode_fetch_response(version, frame)
        except ProtocolViolation as violation:
            return ConnectionFailed(f"unreadable answer to a fetch: {violation}")
        if answer.throttle_ms and self._link is not None:
            self._link.throttle(answer.throttle_ms)
        return answer


def _on_lost(link: Link, sent: list[InFlightRequest], queued: list[InFlightRequest], reason: ClientError) -> None:
    for request in (*sent, *queued):
        request.on_frame(request.version, failed(request, reason))
