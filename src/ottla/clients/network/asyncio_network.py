"""The client loop of an asyncio client: the running event loop, its timers and its transports.

Created and used within one loop. Only asyncio clients import this, so that blocking ones don't import asyncio.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from ottla.clients.errors import ClientError
from ottla.clients.network.base import BaseNetwork
from ottla.core.types import Buffer
from ottla.links.addresses import Address
from ottla.links.settings import NetworkSettings
from ottla.links.wire import Channel, Wire

T = TypeVar("T")

# Parts shorter than this are joined into one write; longer ones are written as they are.
_JOINED_BYTES_MAX = 64 * 1024


class AsyncioNetwork(BaseNetwork):
    """Create, use and `close` it in the same event loop."""

    def __init__(self, bootstrap: str, *, client_id: str, settings: NetworkSettings) -> None:
        super().__init__(bootstrap, client_id=client_id, settings=settings)
        self.loop = asyncio.get_running_loop()

    def now_ms(self) -> int:
        return int(self.loop.time() * 1000)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self.loop.call_later(delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.loop.call_soon(callback)

    def post(self, callback: Callable[[], None]) -> None:
        self.loop.call_soon_threadsafe(callback)

    def open(self, address: Address, wire: Wire) -> Channel:
        return TransportChannel(address, wire, network=self)

    async def ask(self, start: Callable[[Callable[[T | ClientError], None]], None]) -> T:
        """Await a function that calls back with its result or with a ClientError, which this raises."""
        future: asyncio.Future[T] = self.loop.create_future()

        def settle(outcome: T | ClientError) -> None:
            if future.done():
                return  # cancelled: no task awaits it any more
            if isinstance(outcome, ClientError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        start(settle)
        return await future

    async def close(self) -> None:
        """Close every connection; all requests fail with `ClientClosed` before this returns."""
        self.brokers.close()
        await asyncio.sleep(0)


class TransportChannel(asyncio.BufferedProtocol):
    """One transport. A task connects; `close` cancels it."""

    def __init__(self, address: Address, wire: Wire, *, network: AsyncioNetwork) -> None:
        self._wire = wire
        self._network = network
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self._unsent: list[Buffer] = []
        self._connecting: asyncio.Task[None] = network.loop.create_task(self._connect(address))

    # For the wire.

    def send(self, parts: Sequence[Buffer]) -> None:
        if not self._unsent:
            self._network.loop.call_soon(self._flush)
        self._unsent.extend(parts)

    def close(self) -> None:
        self._is_closed = True
        self._unsent.clear()
        self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()

    # For the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_closed:
            self._transport.abort()
            return
        sock = transport.get_extra_info("socket")
        settings = self._network.settings
        if settings.send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        self._wire.connected()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._wire.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if not self._is_closed:
            self._wire.received(nbytes)

    def eof_received(self) -> bool:
        self._failed("the broker closed the connection")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        reason = getattr(error, "strerror", None) or str(error) if error is not None else "it was closed"
        self._failed(f"the connection broke: {reason}")

    # Inside.

    async def _connect(self, address: Address) -> None:
        try:
            await self._network.loop.create_connection(lambda: self, address.host, address.port)
        except OSError as error:
            self._failed(f"not reached: {_reason_of(error)}")

    def _flush(self) -> None:
        """Once per turn of the loop: one write for what several callbacks send, unless it is large."""
        parts, self._unsent = self._unsent, []
        transport = self._transport
        if transport is None or self._is_closed or not parts:
            return
        if sum(map(len, parts)) <= _JOINED_BYTES_MAX:
            transport.write(b"".join(parts))
        else:
            for part in parts:
                transport.write(part)

    def _failed(self, reason: str) -> None:
        if not self._is_closed:
            self.close()
            self._wire.lost(reason)


def _reason_of(error: OSError) -> str:
    """The operating system's message, without asyncio's text around it."""
    if isinstance(error, socket.gaierror):
        return f"the name was not resolved: {error.strerror}"
    if error.errno:
        return os.strerror(error.errno)
    return str(error)
