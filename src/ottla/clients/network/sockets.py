"""One non-blocking socket in a selector: connects to the first address of a host that answers, then carries bytes.

The wire interprets the bytes. A thread looks the host's name up: a slow name server must not block the loop.
"""

import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ottla.core.types import Buffer
from ottla.links.addresses import Address
from ottla.links.settings import NetworkSettings
from ottla.links.wire import Wire

_PARTS_PER_CALL: Final = 64
_BYTES_PER_TURN: Final = 4 * 1024 * 1024
_IN_PROGRESS: Final = (BlockingIOError, InterruptedError)


class SocketLoop(Protocol):
    settings: NetworkSettings

    def call_soon(self, callback: Callable[[], None]) -> None: ...

    def post(self, callback: Callable[[], None]) -> None: ...

    def send_soon(self, channel: "SocketChannel") -> None: ...


class SocketChannel:
    """`ThreadNetwork.open` creates it; its wire closes it, or it closes itself when the socket fails."""

    __slots__ = (
        "_addresses",
        "_is_closed",
        "_is_connected",
        "_is_waiting",
        "_loop",
        "_outbox",
        "_selector",
        "_socket",
        "_wire",
    )

    def __init__(self, address: Address, wire: Wire, *, loop: SocketLoop, selector: selectors.BaseSelector) -> None:
        self._wire = wire
        self._loop = loop
        self._selector = selector
        self._socket: socket.socket | None = None
        self._addresses: deque[tuple[Any, ...]] = deque()
        self._outbox: deque[Buffer] = deque()
        self._is_connected = False
        self._is_waiting = False  # for the socket to take more
        self._is_closed = False
        try:
            found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except OSError:
            threading.Thread(target=self._look_up, args=(address,), name="ottla-lookup", daemon=True).start()
        else:
            loop.call_soon(lambda: self._found(found))

    def send(self, parts: Sequence[Buffer]) -> None:
        if not self._outbox and not self._is_waiting:
            self._loop.send_soon(self)
        self._outbox.extend(parts)

    def close(self) -> None:
        self._is_closed = True
        self._outbox.clear()
        self._drop_socket()

    def flush(self) -> None:
        """Write as much as the socket takes."""
        outbox, sock = self._outbox, self._socket
        try:
            while outbox and sock is not None:
                count = sock.sendmsg(_first(outbox))
                while count:
                    part = outbox.popleft()
                    size = len(part)
                    if count < size:
                        outbox.appendleft(memoryview(part)[count:])
                        break
                    count -= size
                while outbox and not len(outbox[0]):
                    outbox.popleft()
        except _IN_PROGRESS:
            pass
        except OSError as error:
            self._failed(f"sending failed: {error.strerror or error}")
            return
        if bool(outbox) != self._is_waiting and sock is not None:
            self._is_waiting = bool(outbox)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if outbox else 0)
            self._selector.modify(sock, events, self)

    def handle(self, events: int) -> None:
        """The selector reports the socket as ready."""
        if self._is_closed:
            return
        if not self._is_connected:
            self._connected()
            return
        if events & selectors.EVENT_WRITE:
            self.flush()
        if events & selectors.EVENT_READ and not self._is_closed:
            self._receive()

    def _receive(self) -> None:
        wire, sock = self._wire, self._socket
        left = _BYTES_PER_TURN
        try:
            while left > 0 and not self._is_closed and sock is not None:
                buffer = wire.buffer()
                count = sock.recv_into(buffer)
                if count == 0:
                    self._failed("the broker closed the connection")
                    return
                wire.received(count)
                if count < len(buffer):
                    return
                left -= count
        except _IN_PROGRESS:
            pass
        except OSError as error:
            self._failed(f"receiving failed: {error.strerror or error}")

    # Connecting.

    def _look_up(self, address: Address) -> None:
        try:
            found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        except OSError as error:
            reason = f"not reached: the name was not resolved: {error.strerror or error}"
            self._loop.post(lambda: self._failed(reason))
        else:
            self._loop.post(lambda: self._found(found))

    def _found(self, addresses: Sequence[tuple[Any, ...]]) -> None:
        self._addresses.extend(addresses)
        self._connect_to_next("no address was found")

    def _connect_to_next(self, reason: str) -> None:
        settings = self._loop.settings
        while self._addresses and not self._is_closed:
            family, kind, protocol, _, address = self._addresses.popleft()
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if settings.send_buffer_bytes >= 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
                if settings.receive_buffer_bytes >= 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
                sock.connect(address)
            except _IN_PROGRESS:
                pass
            except OSError as error:
                sock.close()
                reason = error.strerror or str(error)
                continue
            self._socket = sock
            self._selector.register(sock, selectors.EVENT_WRITE, self)
            return
        self._failed(f"not reached: {reason}")

    def _connected(self) -> None:
        sock = self._socket
        assert sock is not None
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._drop_socket()
            self._connect_to_next(os.strerror(code))
            return
        self._is_connected = True
        self._selector.modify(sock, selectors.EVENT_READ, self)
        self._wire.connected()

    def _failed(self, reason: str) -> None:
        if not self._is_closed:
            self.close()
            self._wire.lost(reason)

    def _drop_socket(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._selector.unregister(sock)
            sock.close()


def _first(outbox: deque[Buffer]) -> list[Buffer]:
    return list(outbox) if len(outbox) <= _PARTS_PER_CALL else [outbox[index] for index in range(_PARTS_PER_CALL)]
