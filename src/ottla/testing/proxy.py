"""The proxy in front of a test's broker: its thread, event loop and sockets. `relay` handles the frames.

Clients know only the proxy's address, which stays the same however often the broker restarts.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from ottla.testing.error_answers import BrokerIdentity
from ottla.testing.faults import FaultBoard
from ottla.testing.relay import QUEUED_BYTES_MAX, Relay
from ottla.testing.reserved_port import bind_beside

_HOST: Final = "127.0.0.1"
_CALL_TIMEOUT_S: Final = 30

T = TypeVar("T")


class FaultProxy:
    """From its creation to `close`; accepts connections only between `open` and `shut`."""

    def __init__(self, placeholder: socket.socket) -> None:
        """The proxy takes over `placeholder` (see `reserved_port`)."""
        self._placeholder = placeholder
        self.port: int = placeholder.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._upstream_port = 0
        self._identity = BrokerIdentity(-1, "", _HOST, self.port)
        self._links: set[_ClientSide] = set()
        self.board = FaultBoard(self._call)
        self._thread = threading.Thread(target=self._run, name=f"ottla-proxy-{self.port}", daemon=True)
        self._thread.start()

    def open(self, upstream_port: int, *, broker_id: int, cluster_id: str) -> None:
        """Accept clients, and connect each to the broker on that port."""
        self._upstream_port = upstream_port
        self._identity = BrokerIdentity(broker_id, cluster_id, _HOST, self.port)
        self._await(self._listen())

    def shut(self) -> None:
        """Refuse new connections; existing ones stay until the broker or `cut_connections` ends them."""
        self._await(self._stop_listening())

    def cut_connections(self, client_id: str | None = None) -> int:
        """End all connections, or those of one client, at once; returns how many."""

        def cut() -> int:
            links = [link for link in self._links if client_id is None or client_id == link.relay.client_id]
            for link in links:
                link.cut()
            return len(links)

        return self._call(cut)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._await(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_TIMEOUT_S)
        self._loop.close()
        self._placeholder.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, function: Callable[[], T]) -> T:
        """Runs in the proxy's thread; the test's faults are active when this returns."""
        if threading.current_thread() is self._thread or self._loop.is_closed():
            return function()
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except Exception as error:  # noqa: BLE001 - raised again where it was called
                future.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return future.result(_CALL_TIMEOUT_S)

    def _await(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_TIMEOUT_S)

    async def _listen(self) -> None:
        listener = bind_beside(self.port)
        self._server = await self._loop.create_server(self._accept, sock=listener, backlog=128)

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _finish(self) -> None:
        await self._stop_listening()
        for link in list(self._links):
            link.cut()
        tasks = [link.connecting for link in self._links if link.connecting is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # lets the transports close their sockets

    def _accept(self) -> asyncio.Protocol:
        return _ClientSide(
            self._loop, self.board, self._links, upstream_port=self._upstream_port, identity=self._identity
        )


class _ClientSide(asyncio.Protocol):
    """A client's connection; owns the relay and the connection to the broker that belongs to it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        board: FaultBoard,
        links: "set[_ClientSide]",
        *,
        upstream_port: int,
        identity: BrokerIdentity,
    ) -> None:
        self.identity = identity
        self.connecting: asyncio.Task[None] | None = None
        self.relay = Relay(board, self)
        self._loop = loop
        self._board = board
        self._links = links
        self._upstream_port = upstream_port
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._came_early = b""  # some Pythons (3.11.2) read from a transport that was paused when it was made
        self._is_broker_slow = False
        self._timer: asyncio.TimerHandle | None = None

    # From the client's socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._client = transport
        self._links.add(self)
        transport.pause_reading()  # until there is someone to bring it to
        self.connecting = self._loop.create_task(self._connect())

    def data_received(self, data: bytes) -> None:
        if self._broker is None:
            self._came_early += data
            return
        self.relay.take_from_client(data)
        self._read_or_wait()

    def pause_writing(self) -> None:
        if self._broker is not None and self._broker.is_reading():
            self._broker.pause_reading()

    def resume_writing(self) -> None:
        if self._broker is not None and not self._broker.is_reading() and not self._broker.is_closing():
            self._broker.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._links.discard(self)
        self._board.connections.discard(self.relay)
        if self._timer is not None:
            self._timer.cancel()
        if self.connecting is not None:
            self.connecting.cancel()
        if self._broker is not None:
            self._broker.close()

    # From the broker's socket.

    def broker_connected(self, transport: asyncio.Transport) -> None:
        self._broker = transport
        self._board.connections.add(self.relay)
        if self._client is None or self._client.is_closing():
            transport.close()
            return
        if self._came_early:
            self.relay.take_from_client(self._came_early)
            self._came_early = b""
        self._client.resume_reading()

    def broker_sent(self, data: bytes) -> None:
        self.relay.take_from_broker(data)

    def broker_is_slow(self, is_slow: bool) -> None:
        self._is_broker_slow = is_slow
        self._read_or_wait()

    def broker_gone(self) -> None:
        if self._client is not None:
            self._client.close()

    # For the relay.

    def send_to_broker(self, data: bytes) -> None:
        if self._broker is not None and not self._broker.is_closing():
            self._broker.write(data)

    def send_to_client(self, data: bytes) -> None:
        if self._client is not None and not self._client.is_closing():
            self._client.write(data)

    def cut(self) -> None:
        """Drops data on its way to the client; data on its way to the broker arrives there."""
        if self._client is not None:
            self._client.abort()
        if self._broker is not None:
            self._broker.close()

    def now(self) -> float:
        return self._loop.time()

    def call_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._pump)

    def _pump(self) -> None:
        self._timer = None
        self.relay.pump()
        self._read_or_wait()

    def _read_or_wait(self) -> None:
        client = self._client
        if client is None or client.is_closing() or self._broker is None:
            return
        is_full = self._is_broker_slow or self.relay.queued_bytes > QUEUED_BYTES_MAX
        if is_full and client.is_reading():
            client.pause_reading()
        elif not is_full and not client.is_reading():
            client.resume_reading()

    async def _connect(self) -> None:
        try:
            await self._loop.create_connection(lambda: _BrokerSide(self), _HOST, self._upstream_port)
        except OSError:
            self.broker_gone()
        finally:
            self.connecting = None


class _BrokerSide(asyncio.Protocol):
    """The connection to the broker that serves one client."""

    def __init__(self, owner: _ClientSide) -> None:
        self._owner = owner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._owner.broker_connected(transport)

    def data_received(self, data: bytes) -> None:
        self._owner.broker_sent(data)

    def pause_writing(self) -> None:
        self._owner.broker_is_slow(True)

    def resume_writing(self) -> None:
        self._owner.broker_is_slow(False)

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.broker_gone()
