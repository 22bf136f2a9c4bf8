"""What the cores of producer, consumer and admin need of a network: requests by callback, timers, one thread.

Everything of a client's core runs in one place, its *client loop*: the I/O thread of a blocking client, the event loop
of an asyncio client. Callbacks never run inside the call that asked for them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ottla.clients.errors import ClientError
from ottla.core.types import BrokerId, Buffer
from ottla.links.addresses import Address
from ottla.links.link import Timer
from ottla.protocol.message import ApiMessage

# A response message, or why there is none: the connection broke, the request timed out, the broker doesn't serve it.
OnResponse: TypeAlias = Callable[[Any | ClientError], None]


class Network(Protocol):
    """The client loop of one client. Every method but `post` is called from within the loop."""

    # Called with a broker's id when the connection to it was lost or could not be made, but for idle ones.
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
        """Send a message, in the highest version that both sides speak; `on_response` is called exactly once.

        `versions` keeps it within those that the caller filled in; all that the message has unless given.

        Requests to one broker are sent in the order of the calls, over one connection; `broker_id` ANY_BROKER takes
        the least loaded one. A broker id beyond the known ones is a coordinator's own connection (see `coordinator`).
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
        """The hot way: `encode(version, correlation id, client id)` packs the frame, `on_frame(version, frame)` gets
        the answer undecoded; its memory is its own and may be kept. With acks=0 no answer comes:
        `on_frame(version, b"")` is called when the frame is handed to the socket.
        """
        ...

    def in_flight(self, broker_id: BrokerId) -> int:
        """Requests of this client to a broker that are not answered yet."""
        ...

    def serves(self, broker_id: BrokerId, api_key: int) -> tuple[int, int] | None:
        """The versions that a connected broker has of an API; None where it has none or is not connected yet."""
        ...

    def throttle(self, broker_id: BrokerId, delay_ms: int) -> None:
        """Send nothing to a broker for a while, since it asked for it. `request` sees to that by itself, whoever
        decodes the frames of `request_frame` calls this with the `throttle_time_ms` in them.
        """
        ...

    def set_brokers(self, brokers: Mapping[BrokerId, Address]) -> None:
        """Where the brokers of the cluster are, as the metadata says. Connections to others end when they are idle."""
        ...


ANY_BROKER: BrokerId = -1


def coordinator_connection(broker_id: BrokerId) -> BrokerId:
    """The id of a coordinator's own connection: a long poll on the other one would hold up heartbeats."""
    return 2**31 - 1 - broker_id
