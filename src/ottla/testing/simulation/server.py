"""The network of a simulated broker: frames out of byte streams, answers back in their order.

It holds back as `net/connection.py` does, without its buffers and limits. A frame is overwritten after its handler:
whoever keeps a view of it, reads garbage here too.
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final

from ottla.core.config.listeners import Listener
from ottla.core.disk import FileSlice
from ottla.core.errors import ProtocolViolation
from ottla.core.exchange import Answer, Deferred, FrameHandler
from ottla.core.types import Buffer
from ottla.net.limits import NetworkLimits
from ottla.net.order import AnswerOrder
from ottla.testing.simulation import network
from ottla.testing.simulation.endpoint import Endpoint
from ottla.testing.simulation.network import Host, SimulatedNetwork
from ottla.testing.simulation.scheduler import ProcessLoop, Timer

_unpack_size = Struct(">i").unpack_from
_FIRST_FREE_PORT: Final = 30_000
_GARBAGE: Final = b"\xdd"


class SimulatedServer:
    """Implements `broker/ports.py` Network for one life of a process."""

    def __init__(
        self, streams: SimulatedNetwork, host: Host, loop: ProcessLoop, handler: FrameHandler, limits: NetworkLimits
    ) -> None:
        self._streams = streams
        self._host = host
        self._handler = handler
        self.loop = loop
        self.limits = limits
        self.connections: dict[ServerConnection, None] = {}
        self._bound: list[tuple[Listener, network.Listener]] = []
        self._on_stopped: Callable[[], None] | None = None
        self._stop_timer: Timer | None = None

    def bind(self, listeners: Iterable[Listener]) -> tuple[Listener, ...]:
        for listener in listeners:
            port = listener.port or _FIRST_FREE_PORT + len(self._host.listeners)
            streams = self._streams.listen(self._host, port, self.loop)
            self._bound.append((listener._replace(port=port), streams))
        return tuple(listener for listener, _ in self._bound)

    def start_accepting(self) -> None:
        for listener, streams in self._bound:
            self._streams.accept(streams, lambda endpoint, name=listener.name: self._on_accept(endpoint, name))  # type: ignore[misc]

    def update_connection_limits(self, limits: NetworkLimits) -> None:
        self.limits = limits

    def stop(self, *, drain_ms: int, on_stopped: Callable[[], None]) -> None:
        for listener, _ in self._bound:
            self._host.listeners.pop(listener.port, None)
        self._on_stopped = on_stopped
        for connection in list(self.connections):
            connection.drain()
        if self.connections:
            self._stop_timer = self.loop.call_later(drain_ms / 1000, self._close)
        else:
            self._close()

    def handle(self, frame: memoryview, connection: "ServerConnection") -> "Answer | Deferred | None":
        return self._handler(frame, connection)

    def forget(self, connection: "ServerConnection") -> None:
        self.connections.pop(connection, None)
        if not self.connections and self._stop_timer is not None:
            self._close()

    def _on_accept(self, endpoint: Endpoint, listener_name: str) -> None:
        connection = ServerConnection(self, endpoint, listener_name)
        endpoint.receiver = connection
        self.connections[connection] = None

    def _close(self) -> None:
        if self._stop_timer is not None:
            self._stop_timer.cancel()
            self._stop_timer = None
        for connection in list(self.connections):
            connection.close()
        if self._on_stopped is not None:
            self.loop.call_soon(self._on_stopped)
            self._on_stopped = None


class ServerConnection:
    """One client of the broker: the `Peer` that handlers see, and the owner of its end of the stream."""

    __slots__ = (
        "_endpoint",
        "_has_ended",
        "_input",
        "_is_draining",
        "_is_held",
        "_is_scheduled",
        "_server",
        "_violation",
        "address",
        "handler_notes",
        "is_closed",
        "is_deferrable",
        "listener_name",
        "order",
    )

    def __init__(self, server: SimulatedServer, endpoint: Endpoint, listener_name: str) -> None:
        self.address = endpoint.way[1]
        self.listener_name = listener_name
        self.handler_notes: Any = None
        self.is_deferrable = False
        self.order = AnswerOrder()
        self.is_closed = False
        self._server = server
        self._endpoint = endpoint
        self._input = bytearray()
        self._is_held = False
        self._is_draining = False
        self._is_scheduled = False
        self._has_ended = False  # the peer sends no more; what it sent before is still worked off
        self._violation = False

    # The stream

    def on_connected(self) -> None:
        pass

    def on_bytes(self, data: bytes) -> None:
        self._input += data
        if not self._is_held and not self._is_scheduled:
            self._run_turn()

    def on_end(self, reason: str) -> None:
        self._has_ended = True
        if self._has_whole_frame and not self._is_draining:
            self._schedule()
        else:
            self.close()

    # Turns

    def run(self) -> None:
        self._is_scheduled = False
        if not self.is_closed:
            self._run_turn()

    def drain(self) -> None:
        """Start no more requests; close when those that were started are answered."""
        self._is_draining = True
        if not self.order:
            self.close()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._endpoint.close()
        self._server.forget(self)
        for deferred in self.order.close():
            deferred.on_complete = None
            deferred.abandon()

    @property
    def _has_whole_frame(self) -> bool:
        data = self._input
        return len(data) >= 4 and len(data) - 4 >= _unpack_size(data)[0]

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._server.loop.call_soon(self.run)

    def _run_turn(self) -> None:
        ready: list[Buffer | FileSlice] = []
        order = self.order
        if order.entries:
            order.release(ready)
        while not self._is_held and not self._is_draining and not self._violation and self._start_frame(ready):
            pass
        if order.entries:
            order.release(ready)
        if ready and not self._has_ended:
            self._send(ready)
        if (
            self._violation
            or (self._is_draining and not order)
            or (self._has_ended and not (self._is_held and self._has_whole_frame))
        ):
            self.close()

    def _start_frame(self, ready: list[Buffer | FileSlice]) -> bool:
        """Hand the next frame to the handler; False when it is not there yet."""
        data = self._input
        if len(data) < 4:
            return False
        size = _unpack_size(data)[0]
        if not 0 < size <= self._server.limits.socket_request_max_bytes:
            self._violation = True
            return False
        end = 4 + size
        if len(data) < end:
            return False
        frame = data[4:end]
        del data[:end]
        try:
            answer = self._server.handle(memoryview(frame), self)
        except ProtocolViolation:
            self._violation = True
            return False
        frame[:] = _GARBAGE * size
        self.is_deferrable = False
        self._place(answer, ready)
        return True

    def _place(self, answer: Answer | Deferred | None, ready: list[Buffer | FileSlice]) -> None:
        if isinstance(answer, Deferred) and not answer.is_complete:
            answer.on_complete = self._on_complete
            self.order.entries.append(answer)
            self._is_held = answer.holds
            return
        if isinstance(answer, Deferred):
            self._violation = answer.failure is not None
            answer = answer.answer
        if answer is None:
            return
        if self.order.entries:
            self.order.append(answer)
        elif isinstance(answer, list):
            ready.extend(answer)
        else:
            ready.append(answer)

    def _on_complete(self, deferred: Deferred) -> None:
        deferred.on_complete = None
        if self.is_closed:
            return
        if deferred.holds:
            self._is_held = False
        if deferred.failure is not None:
            self._on_failure(deferred.failure)
        self._schedule()

    def _on_failure(self, failure: Exception) -> None:
        if not isinstance(failure, ProtocolViolation):
            raise failure  # a bug: it ends the run
        self._violation = True

    def _send(self, parts: list[Buffer | FileSlice]) -> None:
        data = bytearray()
        for part in parts:
            if isinstance(part, FileSlice):
                try:
                    read = part.file.pread(part.length, part.position)
                except OSError:
                    self._violation = True
                    break
                data += read
                if len(read) < part.length:
                    self._violation = True  # the file was cut meanwhile
                    break
            else:
                data += part
        self._endpoint.send(bytes(data))
