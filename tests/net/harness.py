"""A real server on loopback, its loop in a thread, and plain blocking sockets against it."""

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self, TypeVar

import uvloop

from ottla.core.config.listeners import Listener
from ottla.core.disk import FileSlice
from ottla.core.exchange import Deferred, FrameHandler
from ottla.net.limits import NO_LIMIT, NetworkLimits
from ottla.net.server import Server

Result = TypeVar("Result")

WAIT_S = 10.0


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def echo(received: memoryview, peer: object) -> bytes:
    return frame(bytes(received))


class RealFile:
    """A ReadFile of the machine's own file system."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY)

    def pread(self, length: int, position: int) -> bytes:
        return os.pread(self.fd, length, position)

    def __del__(self) -> None:
        os.close(self.fd)


class MemoryFile:
    """A ReadFile as the simulated disk has it: no descriptor."""

    fd = -1

    def __init__(self, data: bytes) -> None:
        self._data = data

    def pread(self, length: int, position: int) -> bytes:
        return self._data[position : position + length]


class Client:
    """A blocking socket that speaks in frames."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", receive_buffer_bytes: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(WAIT_S)
        try:
            self.socket.connect((host, port))
        except OSError:
            self.socket.close()
            raise

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_exactly(self, length: int) -> bytes:
        received = bytearray()
        while len(received) < length:
            piece = self.socket.recv(min(length - len(received), 1 << 20))
            if not piece:
                raise EOFError(f"closed after {len(received)} of {length} bytes")
            received += piece
        return bytes(received)

    def receive(self) -> bytes:
        return self.receive_exactly(int.from_bytes(self.receive_exactly(4), "big"))

    def ask(self, body: bytes) -> bytes:
        self.send(frame(body))
        return self.receive()

    def is_closed_by_peer(self) -> bool:
        """Waits for the end; False when bytes come instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()


class RunningServer:
    """Loop and server; `call` runs a function on the loop's thread."""

    def __init__(
        self,
        handler: FrameHandler,
        limits: NetworkLimits | None = None,
        *,
        is_accepting: bool = True,
        descriptors_max: int = NO_LIMIT,
    ) -> None:
        self.loop = uvloop.new_event_loop()
        self.executor = ThreadPoolExecutor(1)
        self.server = Server(
            self.loop, handler, limits or NetworkLimits(), self.executor, descriptors_max=descriptors_max
        )
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._clients: list[Client] = []
        (listener,) = self.server.bind([Listener("PLAINTEXT", "127.0.0.1", 0)])
        self.port = listener.port
        if is_accepting:
            self.server.start_accepting()
        self._thread.start()

    def call(self, function: Callable[[], Result]) -> Result:
        future: Future[Result] = Future()
        self.loop.call_soon_threadsafe(lambda: future.set_result(function()))
        return future.result(WAIT_S)

    def settled(self) -> Server:
        """The server after the turn that is under way; not to be called on the loop's thread."""
        return self.call(lambda: self.server)

    def turn(self) -> None:
        """Let the loop see what has happened on its sockets."""
        for _ in range(3):
            self.settled()

    def complete(self, deferred: Deferred, answer: bytes | list[bytes | FileSlice] | None) -> None:
        self.call(lambda: deferred.complete(answer))

    def connect(self, *, host: str = "127.0.0.1", receive_buffer_bytes: int = 0) -> Client:
        client = Client(self.port, host=host, receive_buffer_bytes=receive_buffer_bytes)
        self._clients.append(client)
        return client

    def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Let the loop turn until something holds; a bounded number of turns, each one waits for the loop."""
        for _ in range(200_000):
            if self.call(is_true):
                return
        raise AssertionError("did not come true")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        for client in self._clients:
            client.close()
        self.call(self.server.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_S)
        self.executor.shutdown()
        self.loop.close()
