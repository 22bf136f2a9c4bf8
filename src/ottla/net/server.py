"""The network of one broker: listeners, connections and what they share. Owns every socket that serves clients.

Everything runs on the loop's thread; nothing here is a task or a future. The order of a start: `bind`, so that a wrong
port is known before the logs are opened; `start_accepting` when the broker can answer.
"""

import socket
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ottla.core.config.listeners import Listener
from ottla.core.exchange import FrameHandler
from ottla.net.acceptor import Acceptor
from ottla.net.connection import Connection
from ottla.net.connection_quota import ConnectionQuota
from ottla.net.environment import Environment, NetworkMetrics
from ottla.net.expiry import Expiry
from ottla.net.limits import NO_LIMIT, NetworkLimits

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle


class Server:
    """Made by `Broker`; its core calls `stop` or `close` once. `executor` reads cold files.

    `descriptors_max` is how many connections the process has descriptors for, beside its files.
    """

    __slots__ = ("_acceptors", "_connections", "_environment", "_expiry", "_on_stopped", "_quota", "_stop_timer")

    def __init__(
        self,
        loop: "AbstractEventLoop",
        handler: FrameHandler,
        limits: NetworkLimits,
        executor: Executor,
        *,
        descriptors_max: int = NO_LIMIT,
    ) -> None:
        self._environment = Environment(loop, handler, limits, executor, on_closed=self._on_closed)
        self._quota = ConnectionQuota(limits, descriptors_max=descriptors_max)
        self._expiry = Expiry(self._environment)
        self._acceptors: list[Acceptor] = []
        self._connections: set[Connection] = set()
        self._on_stopped: Callable[[], None] | None = None
        self._stop_timer: TimerHandle | None = None

    @property
    def metrics(self) -> NetworkMetrics:
        return self._environment.metrics

    @property
    def in_flight_bytes(self) -> int:
        """Memory held by requests that aren't complete or not started yet."""
        return self._environment.budget.reserved_bytes + self._environment.budget.aside_bytes

    @property
    def in_flight_max_bytes(self) -> int:
        return self._environment.budget.max_bytes

    @property
    def waiting_for_memory(self) -> int:
        """Connections whose next request waits for that memory."""
        return self._environment.budget.waiting_count

    @property
    def retained_bytes(self) -> int:
        """Memory kept for the frames to come."""
        return self._environment.pool.retained_bytes

    @property
    def batched_connections(self) -> int:
        """Connections of which only requests come that may wait a moment."""
        return len(self._environment.batched)

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners as bound: with the ports that the kernel chose."""
        return tuple(acceptor.listener for acceptor in self._acceptors)

    def bind(self, listeners: Iterable[Listener]) -> tuple[Listener, ...]:
        """Bind and listen; clients can connect but are not accepted yet. All or none; raises BindError."""
        try:
            for listener in listeners:
                self._acceptors.append(Acceptor(self._environment, listener, self._quota, self._on_accepted))
        except OSError:
            self._stop_accepting()
            raise
        return self.listeners

    def start_accepting(self) -> None:
        for acceptor in self._acceptors:
            acceptor.start()

    def update_connection_limits(self, limits: NetworkLimits) -> None:
        """Take over the limits that may change while running: connections per broker, per address, per second."""
        self._quota.update_limits(limits)

    def stop(self, *, drain_ms: int, on_stopped: Callable[[], None]) -> None:
        """Accept and start nothing more, answer what was started for at most `drain_ms`, then close all.

        `on_stopped` is called once, on a later turn of the loop.
        """
        self._stop_accepting()
        self._on_stopped = on_stopped
        for connection in tuple(self._connections):
            connection.drain()
        loop = self._environment.loop
        if self._connections:
            self._stop_timer = loop.call_later(drain_ms / 1000, self.close)
        else:
            self.close()

    def close(self) -> None:
        """Close every socket now. Also ends a `stop` that is under way."""
        self._stop_accepting()
        if self._stop_timer is not None:
            self._stop_timer.cancel()
            self._stop_timer = None
        for connection in tuple(self._connections):
            connection.close("stopped")
        self._expiry.stop()
        self._environment.pool.clear()
        if self._on_stopped is not None:
            self._environment.loop.call_soon(self._on_stopped)
            self._on_stopped = None

    def _stop_accepting(self) -> None:
        for acceptor in self._acceptors:
            acceptor.stop()
        self._acceptors.clear()

    def _on_accepted(self, accepted: socket.socket, address: str, listener_name: str) -> None:
        connection = Connection(self._environment, accepted, address=address, listener_name=listener_name)
        self._connections.add(connection)
        self._environment.metrics.connections += 1
        self._expiry.add(connection)

    def _on_closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._environment.metrics.connections -= 1
        self._quota.release(connection.address)
        self._expiry.remove(connection)
        if not self._connections and self._stop_timer is not None:
            self.close()
