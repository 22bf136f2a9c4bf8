"""Byte streams between simulated processes, as TCP has them: in order, each piece late by chance, and what breaks them.

A connection lives between two hosts. What a host's kernel does (handshakes, bytes of a stopped process, the end of a
killed one) happens without the process; what a process gets, it gets on its own loop.

Faults: `refuse`, `stall` (bytes wait), `cut` (after any prefix of what is under way), `partition` (both ways or one).
Nothing that was sent is lost while both hosts live and the connection stands: it comes when the way is free again.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple, TypeAlias

from ottla.testing.simulation.endpoint import RESET, Endpoint, Receiver, Way
from ottla.testing.simulation.scheduler import ProcessLoop, Scheduler

OnAccept: TypeAlias = Callable[[Endpoint], None]


class Latency(NamedTuple):
    """How long a piece is under way."""

    min_s: float = 0.000_100
    spread_s: float = 0.000_900
    slow_chance: float = 0.005
    slow_spread_s: float = 0.050
    split_chance: float = 0.02  # that bytes sent at once come as two pieces


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
        self.blocked: dict[Way, None] = {}
        self.holding: dict[Endpoint, None] = {}
        self.slow: dict[Way, float] = {}  # seconds on top
        self.on_unblocked: list[Callable[[], None]] = []  # of others whose messages go over these ways
        self._waiting_connects: dict[Way, list[Endpoint]] = {}

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
                endpoint.take_unread()
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

    def delay(self, way: Way) -> float:
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
        vanished, host.vanished = host.vanished, []
        for endpoint in vanished:
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
