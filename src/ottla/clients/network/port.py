"""The port that the cores of producer, consumer and admin need: requests by callback, timers, one thread.

A client's core runs in one thread, its *client loop*: the I/O thread of a blocking client, or the event loop of an
asyncio client. A callback never runs before the call that registered it has returned.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ottla.clients.errors import ClientError
from ottla.core.types import BrokerId, Buffer
from ottla.links.addresses import Address
from ottla.links.link import Timer
from ottla.protocol.message import ApiMessage

# A response, or why there is none: the connection broke, the request timed out, the broker doesn't serve it.
OnResponse: TypeAlias = Callable[[Any | ClientError], None]


class Network(Protocol):
    """The client loop of one client. Call every method except `post` from within the loop."""

    # Called with a broker's id when a connection to it failed or was lost, except when an idle one was closed.
    on_lost: list[Callable[[BrokerId], None]]

    def now_ms(self) -> int:
        """A clock that never goes back."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer: ...

    def call_soon(self, callback: Callable[[], None]) -> None: ...

    def post(self, callback: Callable[[], None]) -> None:
        """From any thread: run `callback` in the client loop, soon."""
        ...

    def request(
        self,
        broker_id: BrokerId,
        message: ApiMessage,
        on_response: OnResponse,
        *,
        timeout_ms: int | None = None,
        versions: tuple[int, int] | None = None,
    ) -> None:
        """Send a message, in the highest version that both sides support; calls `on_response` exactly once.

        `versions` limits it to those that the caller filled in; by default all versions of the message.

        Requests to one broker are sent in the order of the calls, over one connection; `broker_id` ANY_BROKER takes
        the least loaded one. `coordinator` gives the id of a coordinator's own connection.
        """
        ...

    def request_frame(
        self,
        broker_id: BrokerId,
        api_key: int,
        encode: Callable[[int, int, str], Sequence[Buffer]],
        on_frame: Callable[[int, memoryview | ClientError], None],
        *,
        versions: tuple[int, int],
        timeout_ms: int | None = None,
        expects_response: bool = True,
    ) -> None:
        """The fast path: `encode(version, correlation id, client id)` packs the frame, `on_frame(version, frame)` gets
        the answer undecoded and may keep it. With acks=0 there is no answer: `on_frame(version, b"")` is called when
        the socket has the frame.
        """
        ...

    def in_flight(self, broker_id: BrokerId) -> int:
        """How many requests to a broker are not answered yet."""
        ...

    def serves(self, broker_id: BrokerId, api_key: int) -> tuple[int, int] | None:
        """The versions of an API that a connected broker serves; None if it serves none or is not connected yet."""
        ...

    def throttle(self, broker_id: BrokerId, delay_ms: int) -> None:
        """Send nothing to a broker for a while, because it asked for that. `request` calls it by itself; code that
        decodes the frames of `request_frame` calls it with their `throttle_time_ms`.
        """
        ...

    def set_brokers(self, brokers: Mapping[BrokerId, Address]) -> None:
        """The addresses of the cluster's brokers, from the metadata. Idle connections to other brokers are closed."""
        ...


ANY_BROKER: BrokerId = -1


def coordinator_connection(broker_id: BrokerId) -> BrokerId:
    """The id of a coordinator's own connection: a long poll on the other one would delay heartbeats."""
    return 2**31 - 1 - broker_id
