"""Byte streams between simulated processes, as TCP has them: in order, each piece late by chance, and what breaks them.

A connection lives between two hosts. What a host's kernel does (handshakes, bytes of a stopped process, the end of a
killed one) happens without the process; what a process gets, it gets on its own loop.

Faults: `refuse`, `stall` (bytes wait), `cut` (after any prefix of what is under way), `partition` (both ways or one).
Nothing that was sent is lost while both hosts live and the connection stands: it comes when the way is free again.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple, Protocol, TypeAlias

from ottla.testing.simulation.scheduler import ProcessLoop, Scheduler

RESET: Final = "Connection reset by peer"
CLOSED: Final = "the peer closed the connection"


class Latency(NamedTuple):
    """How long a piece is under way."""

    min_s: float = 0.000_100
    spread_s: float = 0.000_900
    slow_chance: float = 0.005
    slow_spread_s: float = 0.050
    split_chance: float = 0.02  # that bytes sent at once come as two pieces


class Receiver(Protocol):
    """The owner of one end of a connection; called on its process's loop. After `on_end` nothing comes."""

    def on_connected(self) -> None: ...

    def on_bytes(self, data: bytes) -> None: ...

    def on_end(self, reason: str) -> None: ...


# What goes over a connection: bytes; None, that it stands; a text, why it ended.
_Item: TypeAlias = bytes | str | None
_Way: TypeAlias = tuple[str, str]  # from host to host
OnAccept: TypeAlias = Callable[["Endpoint"], None]


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
        "way",
    )

    def __init__(self, network: "SimulatedNetwork", host: "Host", loop: ProcessLoop, way: _Way, port: int) -> None:
        self._network = network
        self.host = host
        self.loop = loop
        self.way = way
        self.port = port  # that the server listens on
        self.peer: Endpoint | None = None  # of a client: none before the connection stands
        self.receiver: Receiver | None = None
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
        item = self.in_flight.popleft()
        receiver = peer.receiver
        if peer.is_closed or receiver is None:
            return
        if type(item) is bytes:
            receiver.on_bytes(item)
        elif item is None:
            peer.is_connected = True
            receiver.on_connected()
        elif type(item) is str:
            peer.is_closed = True
            peer.receiver = None
            peer.host.endpoints.pop(peer, None)
            receiver.on_end(item)


class Listener(NamedTuple):
    """A port of a host; connections wait in `backlog` until `on_accept` is there."""

    loop: ProcessLoop
    backlog: list[Endpoint]
    on_accept: list[OnAccept]  # none or one


class Host:
    """A machine with one process: its ports, and the ends of its connections."""

    __slots__ = ("endpoints", "is_up", "listeners", "name", "refuses", "vanished", "waiting_connects")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_up = True
        self.refuses = False
        self.listeners: dict[int, Listener] = {}
        self.endpoints: dict[Endpoint, None] = {}
        self.vanished: list[Endpoint] = []
        self.waiting_connects: list[Endpoint] = []  # to this host, while it was off


class SimulatedNetwork:
    """All hosts and their connections. `blocked` are the ways on which nothing comes through."""

    def __init__(self, scheduler: Scheduler, latency: Latency | None = None) -> None:
        self.scheduler = scheduler
        self.latency = latency or Latency()
        self.random: Random = scheduler.random("network")
        self.hosts: dict[str, Host] = {}
        self.blocked: dict[_Way, None] = {}
        self.holding: dict[Endpoint, None] = {}
        self.slow: dict[_Way, float] = {}  # seconds on top
        self.on_unblocked: list[Callable[[], None]] = []  # of others whose messages go over these ways
        self._waiting_connects: dict[_Way, list[Endpoint]] = {}

    def host(self, name: str) -> Host:
        host = self.hosts.get(name)
        if host is None:
            host = self.hosts[name] = Host(name)
        return host

    # Connections

    def listen(self, host: Host, port: int, loop: ProcessLoop) -> Listener:
        """Connections to this port stand from now on; nobody is accepted yet. OSError when the port is taken."""
        if port in host.listeners:
            raise OSError(98, "Address already in use", f"{host.name}:{port}")
        listener = host.listeners[port] = Listener(loop, [], [])
        return listener

    def accept(self, listener: Listener, on_accept: OnAccept) -> None:
        listener.on_accept.append(on_accept)
        for endpoint in listener.backlog:
            if not endpoint.is_closed:
                on_accept(endpoint)
        listener.backlog.clear()

    def connect(self, host: Host, loop: ProcessLoop, address: tuple[str, int], receiver: Receiver) -> Endpoint:
        """Begin to connect; the receiver learns of the result later."""
        name, port = address
        endpoint = Endpoint(self, host, loop, (host.name, name), port)
        endpoint.receiver = receiver
        host.endpoints[endpoint] = None
        self._send_connect(endpoint)
        return endpoint

    def _send_connect(self, endpoint: Endpoint) -> None:
        way = endpoint.way
        if way in self.blocked:
            self._waiting_connects.setdefault(way, []).append(endpoint)
        else:
            self.scheduler.call_at(self.scheduler.now + self.delay(way), partial(self._on_connect, endpoint))

    def _on_connect(self, client: Endpoint) -> None:
        """The first packet is at the server's machine: a step of its kernel."""
        if client.is_closed:
            return
        name = client.way[1]
        host = self.hosts.get(name)
        if host is None:
            self._fail_connect(client, "the name was not resolved")
            return
        if not host.is_up:
            host.waiting_connects.append(client)
            return
        listener = host.listeners.get(client.port)
        if host.refuses or listener is None or listener.loop.is_dead:
            self._fail_connect(client, "Connection refused")
            return
        server = Endpoint(self, host, listener.loop, (name, client.host.name), client.port)
        server.is_connected = server.is_server = True
        server.peer, client.peer = client, server
        host.endpoints[server] = None
        server._carry(None)
        if listener.on_accept:
            self.scheduler.call_at(self.scheduler.now, partial(listener.on_accept[0], server), listener.loop)
        else:
            listener.backlog.append(server)

    def _fail_connect(self, client: Endpoint, reason: str) -> None:
        def fail() -> None:
            receiver = client.receiver
            if receiver is not None:
                client.is_closed = True
                client.receiver = None
                client.host.endpoints.pop(client, None)
                receiver.on_end(f"not reached: {reason}")

        self.scheduler.call_at(self.scheduler.now + self.delay(client.way), fail, client.loop)

    # Time

    def delay(self, way: _Way) -> float:
        latency = self.latency
        random = self.random.random
        delay_s = latency.min_s + latency.spread_s * random()
        if random() < latency.slow_chance:
            delay_s += latency.slow_spread_s * random()
        return delay_s + self.slow.get(way, 0.0) if self.slow else delay_s

    def splits(self, data: bytes) -> bool:
        return len(data) > 1 and self.random.random() < self.latency.split_chance

    # Ends of processes and machines

    def end_process(self, host: Host) -> None:
        """The process is gone: its kernel ends what it had open."""
        host.listeners.clear()
        for endpoint in list(host.endpoints):
            endpoint.close(RESET)

    def power_off(self, host: Host) -> None:
        """Everything on the machine is gone, and nobody is told."""
        host.is_up = False
        host.listeners.clear()
        for endpoint in host.endpoints:
            endpoint.vanish()
        host.vanished.extend(host.endpoints)
        host.endpoints.clear()

    def power_on(self, host: Host) -> None:
        """The machine answers again: it knows nothing of its old connections, and says so to whoever sends on one."""
        if host.is_up:
            return
        host.is_up = True
        for endpoint in host.vanished:
            peer = endpoint.peer
            if peer is not None and peer.awaits_reset:
                self.send_to_vanished(peer)
        waiting, host.waiting_connects = host.waiting_connects, []
        for client in waiting:
            self._send_connect(client)

    def send_to_vanished(self, sender: Endpoint) -> None:
        """Bytes to a connection that its machine has forgotten: reset, or silence while the machine is off."""
        peer = sender.peer
        assert peer is not None
        sender.awaits_reset = True
        if not peer.host.is_up or sender.is_closed:
            return

        def reset() -> None:
            receiver = sender.receiver
            if receiver is not None:
                sender.is_closed = True
                sender.receiver = None
                sender.host.endpoints.pop(sender, None)
                receiver.on_end(RESET)

        self.scheduler.call_at(self.scheduler.now + 2 * self.delay(sender.way), reset, sender.loop)

    # Faults

    def refuse(self, host_name: str, refuses: bool = True) -> None:
        """New connections to this host are refused."""
        self.host(host_name).refuses = refuses

    def connections(self, one: str | None = None, other: str | None = None) -> list[Endpoint]:
        """The servers' ends of all connections, or of those of one host, or between two."""
        return [
            endpoint
            for host in self.hosts.values()
            for endpoint in host.endpoints
            if endpoint.is_server and (one is None or one in endpoint.way) and (other is None or other in endpoint.way)
        ]

    def stall(self, endpoint: Endpoint, stalls: bool = True) -> None:
        """What this end sends waits, until `stall(endpoint, False)`."""
        endpoint.is_stalled = stalls
        endpoint.release()

    def cut(self, endpoint: Endpoint) -> None:
        """Both ends lose the connection, each after any prefix of what is under way to it."""
        for end in (endpoint, endpoint.peer):
            if end is not None and end.peer is not None and not end.is_closed:
                end.cut(self.random.randint(0, end.bytes_in_flight))

    def partition(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Nothing comes through from `one` to `other`, and unless `one_way` nothing comes back."""
        self.blocked[one, other] = None
        if not one_way:
            self.blocked[other, one] = None

    def heal(self, one: str, other: str) -> None:
        """What was held comes now, and what was tried to connect is tried again."""
        self.blocked.pop((one, other), None)
        self.blocked.pop((other, one), None)
        self._release()

    def heal_all(self) -> None:
        self.blocked.clear()
        self.slow.clear()
        for host in self.hosts.values():
            host.refuses = False
            for endpoint in host.endpoints:
                endpoint.is_stalled = False
        for endpoint in self.holding:
            endpoint.is_stalled = False
        self._release()

    def _release(self) -> None:
        for endpoint in list(self.holding):
            endpoint.release()
        for way in [way for way in self._waiting_connects if way not in self.blocked]:
            for client in self._waiting_connects.pop(way):
                self._send_connect(client)
        for on_unblocked in self.on_unblocked:
            on_unblocked()
