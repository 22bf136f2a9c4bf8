"""A broker's connections out to other brokers: sockets on its event loop that connect and carry bytes.

What the bytes mean is `links/`'s; its `ClientLoop` is what `OutgoingSockets` is. No task and no future: the loop calls
when a socket is ready. Names of hosts are looked up on a thread: a slow name server must not hold the loop.
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.core.types import Buffer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

_PARTS_PER_CALL: Final = 64
_BYTES_PER_TURN: Final = 4 * 1024 * 1024  # then it's the turn of the other connections
_IN_PROGRESS: Final = (BlockingIOError, InterruptedError)


class Receiver(Protocol):
    """The owner of a connection's bytes (`links/wire.py`)."""

    def connected(self) -> None: ...

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        ...

    def received(self, count: int) -> None: ...

    def lost(self, reason: str) -> None:
        """Not reached, or broken; comes once at most, and never after the connection was closed from here."""
        ...


class OutgoingSockets:
    """Made by `Broker`; whoever opens a connection closes it."""

    __slots__ = ("_executor", "_loop")

    def __init__(self, loop: "AbstractEventLoop", executor: Executor) -> None:
        self._loop = loop
        self._executor = executor

    def now_ms(self) -> int:
        """The loop's clock; not the time of day."""
        return int(self._loop.time() * 1000)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> "TimerHandle":
        return self._loop.call_later(delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def open(self, address: tuple[str, int], wire: Receiver) -> "OutgoingSocket":
        """Begin to connect; the receiver learns the result later."""
        return OutgoingSocket(address, wire, loop=self._loop, executor=self._executor)


class OutgoingSocket:
    """One connection; closes itself when its socket fails. Connects to the first address of the host that answers."""

    __slots__ = (
        "_addresses",
        "_executor",
        "_is_closed",
        "_is_flush_due",
        "_is_waiting",
        "_loop",
        "_outbox",
        "_receiver",
        "_socket",
    )

    def __init__(
        self, address: tuple[str, int], receiver: Receiver, *, loop: "AbstractEventLoop", executor: Executor
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._receiver = receiver
        self._socket: socket.socket | None = None
        self._addresses: deque[tuple[Any, ...]] = deque()
        self._outbox: deque[Buffer] = deque()
        self._is_waiting = False  # for the socket to take more
        self._is_flush_due = False
        self._is_closed = False
        loop.call_soon(self._look_up, address)

    def send(self, parts: Sequence[Buffer]) -> None:
        """Take all bytes. They are sent at the end of the turn, with all that is sent in it."""
        if self._is_closed:
            return
        self._outbox.extend(parts)
        if not self._is_flush_due and not self._is_waiting:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        self._is_closed = True
        self._outbox.clear()
        self._addresses.clear()
        self._drop_socket()

    # Connecting

    def _look_up(self, address: tuple[str, int]) -> None:
        if self._is_closed:
            return
        try:
            found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except OSError:
            look_up = partial(socket.getaddrinfo, *address, type=socket.SOCK_STREAM)
            self._executor.submit(look_up).add_done_callback(self._report)
        else:
            self._on_found(found, None)

    def _report(self, looked_up: Any) -> None:
        """On the thread that looked the name up."""
        if looked_up.cancelled():
            return  # the broker stops
        error = looked_up.exception()
        try:
            self._loop.call_soon_threadsafe(self._on_found, () if error else looked_up.result(), error)
        except RuntimeError:
            pass  # the loop is closed, and nobody waits for the connection

    def _on_found(self, addresses: Sequence[tuple[Any, ...]], error: BaseException | None) -> None:
        if isinstance(error, OSError):
            self._fail(f"not reached: the name was not resolved: {error.strerror or error}")
        elif error is not None:
            raise error
        elif not self._is_closed:
            self._addresses.extend(addresses)
            self._connect_to_next("no address was found")

    def _connect_to_next(self, reason: str) -> None:
        while self._addresses:
            family, kind, protocol, _, address = self._addresses.popleft()
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:
                reason = error.strerror or str(error)
                continue
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.connect(address)
            except _IN_PROGRESS:
                pass
            except OSError as error:
                sock.close()
                reason = error.strerror or str(error)
                continue
            self._socket = sock
            self._is_waiting = True
            self._loop.add_writer(sock.fileno(), self._on_connected)
            return
        self._fail(f"not reached: {reason}")

    def _on_connected(self) -> None:
        sock = self._socket
        assert sock is not None
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._drop_socket()
            self._connect_to_next(os.strerror(code))
            return
        self._addresses.clear()
        self._stop_waiting(sock)
        self._loop.add_reader(sock.fileno(), self._on_readable)
        self._receiver.connected()

    # Bytes

    def _flush(self) -> None:
        """Write as much as the socket takes."""
        self._is_flush_due = False
        outbox, sock = self._outbox, self._socket
        if sock is None:
            return
        try:
            while outbox:
                _drop_sent(outbox, sock.sendmsg(_first(outbox)))
        except _IN_PROGRESS:
            pass
        except OSError as error:
            self._fail(f"sending failed: {error.strerror or error}")
            return
        if not outbox:
            self._stop_waiting(sock)
        elif not self._is_waiting:
            self._is_waiting = True
            self._loop.add_writer(sock.fileno(), self._flush)

    def _on_readable(self) -> None:
        receiver, sock = self._receiver, self._socket
        left = _BYTES_PER_TURN
        try:
            while left > 0 and not self._is_closed and sock is not None:
                buffer = receiver.buffer()
                count = sock.recv_into(buffer)
                if count == 0:
                    self._fail("the broker closed the connection")
                    return
                left -= count
                is_all = count < len(buffer)
                receiver.received(count)
                if is_all:
                    return
        except _IN_PROGRESS:
            pass
        except OSError as error:
            self._fail(f"receiving failed: {error.strerror or error}")

    # The end

    def _fail(self, reason: str) -> None:
        if not self._is_closed:
            self.close()
            self._receiver.lost(reason)

    def _stop_waiting(self, sock: socket.socket) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(sock.fileno())

    def _drop_socket(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._stop_waiting(sock)
            self._loop.remove_reader(sock.fileno())
            sock.close()


def _first(outbox: deque[Buffer]) -> list[Buffer]:
    return list(outbox) if len(outbox) <= _PARTS_PER_CALL else [outbox[index] for index in range(_PARTS_PER_CALL)]


def _drop_sent(outbox: deque[Buffer], count: int) -> None:
    while outbox:
        part = outbox.popleft()
        size = len(part)
        if count < size:
            outbox.appendleft(memoryview(part)[count:])
            return
        count -= size
