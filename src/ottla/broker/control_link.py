"""The controller's connections to brokers, and a broker's to the controller; to its own broker it is a call.

It sends and brings answers back. What is sent, in which order, and what is sent again is the controller's to decide.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, TypeAlias, TypeVar

from ottla.core.cluster import BrokerInfo
from ottla.core.control import (
    ControlAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    ControlRequest,
)
from ottla.core.errors import ProtocolViolation
from ottla.core.types import BrokerId
from ottla.links.addresses import Address
from ottla.links.errors import ClientClosed, ClientError
from ottla.links.link import ClientLoop, Link
from ottla.links.settings import NetworkSettings
from ottla.links.wire import InFlightRequest
from ottla.protocol.apis import response_class
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.control_codec import (
    CONTROL_VERSION,
    ControlResponseMessage,
    answer_of,
    message_of,
    shutdown_answer,
    shutdown_message,
)
from ottla.protocol.control_messages import ControlledShutdownResponse
from ottla.protocol.message import ApiMessage

_VERSIONS: Final = (CONTROL_VERSION, CONTROL_VERSION)

AnswerT = TypeVar("AnswerT")
# None: the connection failed, and the broker may have acted.
OnAnswer: TypeAlias = Callable[[ControlAnswer | None], None]
OnShutdownAnswer: TypeAlias = Callable[[ControlledShutdownAnswer | None], None]


class ControlLinks:
    """One link for each broker that was sent to, until `forget` or `close`. Owned by the broker; event loop only."""

    def __init__(
        self,
        loop: ClientLoop,
        *,
        broker_id: BrokerId,
        listener_name: str,
        handle_here: Callable[[ControlRequest, Callable[[ControlAnswer], None]], None],
        request_timeout_ms: int,
        random: Random,
    ) -> None:
        """`handle_here` is what this broker does with a request of its own controller: no frame is made of it."""
        self._loop = loop
        self._broker_id = broker_id
        self._listener_name = listener_name
        self._handle_here = handle_here
        self._settings = NetworkSettings(request_timeout_ms=request_timeout_ms)
        self._random = random
        self._links: dict[BrokerId, Link] = {}

    def send(self, broker: BrokerInfo, request: ControlRequest, on_answer: OnAnswer) -> None:
        """Calls `on_answer` once; within this call only if it is this broker that is meant."""
        if broker.broker_id == self._broker_id:
            self._handle_here(request, on_answer)
        else:
            self._send(broker, message_of(request), _read_answer, on_answer)

    def send_shutdown(self, controller: BrokerInfo, request: ControlledShutdown, on_answer: OnShutdownAnswer) -> None:
        """Ask the controller, which is another broker, to take this one's leaders."""
        self._send(controller, shutdown_message(request), _read_shutdown_answer, on_answer)

    def forget(self, broker_id: BrokerId) -> None:
        """The broker is gone: close its link. What was sent to it is answered with None."""
        link = self._links.pop(broker_id, None)
        if link is not None:
            link.close(ClientClosed(f"broker {broker_id} is gone"))

    def close(self) -> None:
        for broker_id in list(self._links):
            self.forget(broker_id)

    def _send(
        self,
        broker: BrokerInfo,
        message: ApiMessage,
        read: Callable[[ApiMessage], AnswerT],
        on_answer: Callable[[AnswerT | None], None],
    ) -> None:
        link = self._link_to(broker)
        if link is None:
            self._loop.call_soon(partial(on_answer, None))
            return

        def on_frame(version: int, frame: memoryview | ClientError) -> None:
            if isinstance(frame, ClientError):
                on_answer(None)
                return
            try:
                _, response = decode_response(response_class(message.API_KEY), version, frame)
                answer = read(response)
            except ProtocolViolation:
                on_answer(None)  # whatever answers there, it is not a broker of ours
                return
            on_answer(answer)

        request = InFlightRequest(
            message.API_KEY,
            lambda version, correlation_id, client_id: [encode_request(message, version, correlation_id, client_id)],
            on_frame,
            versions=_VERSIONS,
            timeout_ms=self._settings.request_timeout_ms,
            expects_response=True,
        )
        link.send(request)

    def _link_to(self, broker: BrokerInfo) -> Link | None:
        endpoint = broker.endpoint_for(self._listener_name)
        if endpoint is None:
            return None
        address = Address(endpoint.host, endpoint.port)
        link = self._links.get(broker.broker_id)
        if link is not None and link.address != address:
            self.forget(broker.broker_id)  # it came back somewhere else
            link = None
        if link is None:
            link = self._links[broker.broker_id] = Link(
                broker.broker_id,
                address,
                loop=self._loop,
                client_id=f"broker-{self._broker_id}",
                settings=self._settings,
                on_lost=_fail_all,
                random=self._random,
            )
        return link


def _fail_all(link: Link, sent: list[InFlightRequest], queued: list[InFlightRequest], reason: ClientError) -> None:
    for request in (*sent, *queued):
        request.on_frame(request.version, reason)


def _read_answer(response: ApiMessage) -> ControlAnswer:
    assert isinstance(response, ControlResponseMessage)
    return answer_of(response)


def _read_shutdown_answer(response: ApiMessage) -> ControlledShutdownAnswer:
    assert isinstance(response, ControlledShutdownResponse)
    return shutdown_answer(response)
