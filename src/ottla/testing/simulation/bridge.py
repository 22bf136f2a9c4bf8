"""A simulated cluster that clients of the real world can use: sockets on loopback lead into its network, and its time
runs with the clock.

What such a run does is not the seed's alone: it depends on when bytes come. Each broker has a second listener for it,
which advertises the real address; brokers among themselves use the first one.
"""

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

from ottla.core.clock import wall_clock_ms
from ottla.core.types import BrokerId
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.endpoint import Endpoint
from ottla.testing.simulation.process import PORT
from ottla.testing.simulation.scheduler import ProcessLoop

T = TypeVar("T")

_LISTENER: Final = "REAL"
_PORT: Final = PORT + 1
_HOST: Final = "real-world"
_CHUNK_BYTES: Final = 64 * 1024
_WAIT_MAX_S: Final = 0.05
_CALL_LOOK_S: Final = 1.0
_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


class BridgedCluster:
    """A cluster and the thread that drives it: `with BridgedCluster(1) as bridged: … bridged.bootstrap …`.

    Only `call` may touch the cluster from another thread.
    """

    def __init__(self, seed: int = 1, *, brokers: int = 3, properties: Mapping[str, str] = _NO_PROPERTIES) -> None:
        self._listening = {broker_id: _listen() for broker_id in range(1, brokers + 1)}
        self.cluster = SimulatedCluster(seed, brokers=brokers, properties=properties, properties_of=self._properties_of)
        self.cluster.scheduler.wall_clock_start_ms = wall_clock_ms()  # clients send timestamps
        self._host = self.cluster.network.host(_HOST)
        self._loop = ProcessLoop(self.cluster.scheduler, _HOST)
        self._selector = selectors.DefaultSelector()
        self._calls: deque[Callable[[], None]] = deque()
        self._connections: dict[_BridgedConnection, None] = {}
        self._wake_socket, self._waker = socket.socketpair()
        self._is_stopped = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._drive, name="ottla-simulation", daemon=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{_port_of(sock)}" for sock in self._listening.values())

    def __enter__(self) -> Self:
        try:
            self.cluster.start()  # as fast as it goes
        except BaseException:
            for sock in (*self._listening.values(), self._wake_socket, self._waker):
                sock.close()
            raise
        self._wake_socket.setblocking(False)
        self._selector.register(self._wake_socket, selectors.EVENT_READ, self._on_woken)
        for broker_id, sock in self._listening.items():
            self._selector.register(sock, selectors.EVENT_READ, _Accepting(self, broker_id, sock))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped = True
        self._waker.send(b"x")
        self._thread.join()
        for connection in list(self._connections):
            connection.close()
        self._selector.close()
        for sock in (*self._listening.values(), self._wake_socket, self._waker):
            sock.close()
        if self._failure is not None:
            raise self._failure

    def call(self, work: Callable[[SimulatedCluster], T]) -> T:
        """Do it between two steps of the simulation, for example a fault. RuntimeError if that has failed before."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work(self.cluster))
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                future.set_exception(error)

        self._calls.append(run)
        self._waker.send(b"x")
        while True:
            try:
                return future.result(timeout=_CALL_LOOK_S)
            except TimeoutError:
                if not self._thread.is_alive():
                    raise RuntimeError("the simulation has failed") from self._failure

    def _properties_of(self, broker_id: BrokerId) -> dict[str, str]:
        name, port = f"broker-{broker_id}", _port_of(self._listening[broker_id])
        return {
            "listeners": f"PLAINTEXT://{name}:{PORT},{_LISTENER}://{name}:{_PORT}",
            "advertised.listeners": f"PLAINTEXT://{name}:{PORT},{_LISTENER}://127.0.0.1:{port}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{_LISTENER}:PLAINTEXT",
        }

    # On the thread

    def _drive(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - raised at the end, where somebody sees it
            self._failure = error

    def _run(self) -> None:
        scheduler = self.cluster.scheduler
        offset_s = scheduler.now - time.monotonic()
        while not self._is_stopped:
            while self._calls:
                self._calls.popleft()()
            scheduler.run_until(time.monotonic() + offset_s)
            wait_s = min(max(scheduler.next_due - (time.monotonic() + offset_s), 0), _WAIT_MAX_S)
            for key, events in self._selector.select(wait_s):
                key.data(events)

    def _on_woken(self, _: int) -> None:
        self._wake_socket.recv(1024)

    def accept(self, broker_id: BrokerId, sock: socket.socket) -> None:
        """A client of the real world: connect to the broker in its name."""
        try:
            accepted, _ = sock.accept()
        except OSError:
            return  # it is gone already
        bridged = _BridgedConnection(accepted, self._selector, self._connections)
        self._connections[bridged] = None
        address = (f"broker-{broker_id}", _PORT)
        bridged.endpoint = self.cluster.network.connect(self._host, self._loop, address, bridged)


class _Accepting:
    """What the selector calls when a client connects."""

    def __init__(self, bridge: BridgedCluster, broker_id: BrokerId, sock: socket.socket) -> None:
        self._bridge = bridge
        self._broker_id = broker_id
        self._socket = sock

    def __call__(self, _: int) -> None:
        self._bridge.accept(self._broker_id, self._socket)


class _BridgedConnection:
    """A real socket on one side, an end of a simulated connection on the other."""

    endpoint: Endpoint

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        open_connections: "dict[_BridgedConnection, None]",
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._selector = selector
        self._open_connections = open_connections
        self._unsent = bytearray()
        self._is_connected = False
        self._is_closed = False
        self._has_ended = False

    # The simulated side

    def on_connected(self) -> None:
        if self._is_closed:
            return
        self._selector.register(self._socket, selectors.EVENT_READ, self._on_ready)
        self._is_connected = True

    def on_bytes(self, data: bytes) -> None:
        if self._is_closed:
            return
        self._unsent += data
        self._flush()

    def on_end(self, reason: str) -> None:
        self._has_ended = True
        if not self._unsent:
            self.close()

    # The real side

    def _on_ready(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if events & selectors.EVENT_READ and not self._is_closed:
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if data:
                self.endpoint.send(data)
            else:
                self.endpoint.close()
                self.close()

    def _flush(self) -> None:
        if self._is_closed:
            return
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.endpoint.close()
            self.close()
            return
        if self._has_ended and not self._unsent:
            self.close()
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._selector.modify(self._socket, events, self._on_ready)

    def close(self) -> None:
        """End the real side."""
        if not self._is_closed:
            self._is_closed = True
            self._open_connections.pop(self, None)
            if self._is_connected:
                self._selector.unregister(self._socket)
            self._socket.close()


def _listen() -> socket.socket:
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    return sock


def _port_of(sock: socket.socket) -> int:
    address: Any = sock.getsockname()
    port: int = address[1]
    return port
