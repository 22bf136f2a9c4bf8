"""One end of a simulated connection: what is on its way to the other end, in which order, and what holds it up."""

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from ottla.testing.simulation.scheduler import ProcessLoop

if TYPE_CHECKING:
    from ottla.testing.simulation.network import Host, SimulatedNetwork

RESET: Final = "Connection reset by peer"
CLOSED: Final = "the peer closed the connection"


class Receiver(Protocol):
    """The owner of one end of a connection; called on its process's loop. After `on_end` nothing comes."""

    def on_connected(self) -> None: ...

    def on_bytes(self, data: bytes) -> None: ...

    def on_end(self, reason: str) -> None: ...


# What goes over a connection: bytes; None, that it stands; a text, why it ended.
_Item: TypeAlias = bytes | str | None
Way: TypeAlias = tuple[str, str]  # from host to host


class Endpoint:
    """One end of a connection: what it sends, and who gets what it receives."""

    __slots__ = (
        "_last_at",
        "_network",
        "_sent_at",
        "awaits_reset",
        "held",
        "host",
        "in_flight",
        "is_closed",
        "is_connected",
        "is_server",
        "is_stalled",
        "is_vanished",
        "loop",
        "peer",
        "port",
        "receiver",
        "unread",
        "way",
    )

    def __init__(self, network: "SimulatedNetwork", host: "Host", loop: ProcessLoop, way: Way, port: int) -> None:
        self._network = network
        self.host = host
        self.loop = loop
        self.way = way
        self.port = port  # that the server listens on
        self.peer: Endpoint | None = None  # of a client: none before the connection stands
        self.receiver: Receiver | None = None
        self.unread: list[_Item] = []  # of a server: what came before it was accepted
        self.in_flight: deque[_Item] = deque()  # on its way to the peer
        self.held: list[_Item] = []  # sent, while the way was blocked
        self.is_connected = False
        self.is_server = False
        self.is_stalled = False
        self.is_closed = False
        self.is_vanished = False  # its machine lost power, and the peer does not know
        self.awaits_reset = False  # has sent to a machine that is off
        self._last_at = 0.0
        self._sent_at = -1.0

    def send(self, data: bytes) -> None:
        """Take all of it; it comes at the peer in order."""
        if not self.is_closed and data and not self.loop.is_dead:
            self._carry(data)

    def close(self, reason: str = CLOSED) -> None:
        """The peer gets what was sent, then the end."""
        if self.is_closed:
            return
        self.is_closed = True
        self.receiver = None
        self.host.endpoints.pop(self, None)
        if self.peer is not None and not self.peer.is_vanished:
            self._carry(reason)

    def vanish(self) -> None:
        """The machine lost power: nobody is told, and what its kernel had not sent is gone."""
        self.is_closed = self.is_vanished = True
        self.receiver = None
        self.held.clear()
        if self.peer is not None:
            self.peer.awaits_reset = bool(self.peer.in_flight or self.peer.held)
            self.peer.held.clear()

    def release(self) -> None:
        """The way may be free again: send what was held."""
        if not self.is_stalled and self.way not in self._network.blocked:
            self._network.holding.pop(self, None)
            held, self.held = self.held, []
            for item in held:
                self._carry(item)

    def cut(self, keep_bytes: int) -> None:
        """Lose all that is under way but its first bytes, and end."""
        kept: deque[_Item] = deque()
        for item in self.in_flight:
            if type(item) is bytes:
                item, keep_bytes = item[:keep_bytes], keep_bytes - len(item)
            if item != b"":
                kept.append(item)
            if keep_bytes < 0:
                break
        self.in_flight = kept
        self.held.clear()
        self._carry(RESET)
        self.host.endpoints.pop(self, None)

    @property
    def bytes_in_flight(self) -> int:
        return sum(len(item) for item in self.in_flight if type(item) is bytes)

    def _carry(self, item: _Item) -> None:
        network, peer = self._network, self.peer
        assert peer is not None
        if self.is_stalled or self.way in network.blocked:
            self.held.append(item)
            network.holding[self] = None
            return
        if peer.is_vanished:
            network.send_to_vanished(self)
            return
        now = network.scheduler.now
        if type(item) is bytes:
            if now == self._sent_at and self.in_flight and type(self.in_flight[-1]) is bytes:
                self.in_flight[-1] += item  # one packet for what is sent in one turn
                return
            if network.splits(item):
                position = network.random.randrange(1, len(item))
                self._send_piece(item[:position], now)
                item = item[position:]
        self._send_piece(item, now)
        self._sent_at = now

    def _send_piece(self, item: _Item, now: float) -> None:
        network, peer = self._network, self.peer
        assert peer is not None
        at = now + network.delay(self.way)
        if at < self._last_at:
            at = self._last_at
        self._last_at = at
        self.in_flight.append(item)
        network.scheduler.call_at(at, self._arrive, peer.loop)

    def _arrive(self) -> None:
        """A piece is at the peer: a step of the peer's."""
        peer = self.peer
        if not self.in_flight or peer is None:
            return  # the connection was cut meanwhile
        peer._take(self.in_flight.popleft())

    def take_unread(self) -> None:
        """The server has accepted the connection: it gets what came before."""
        unread, self.unread = self.unread, []
        for item in unread:
            self._take(item)

    def _take(self, item: _Item) -> None:
        receiver = self.receiver
        if self.is_closed:
            return
        if receiver is None:
            self.unread.append(item)
        elif type(item) is bytes:
            receiver.on_bytes(item)
        elif item is None:
            self.is_connected = True
            receiver.on_connected()
        elif type(item) is str:
            self.is_closed = True
            self.receiver = None
            self.host.endpoints.pop(self, None)
            receiver.on_end(item)
