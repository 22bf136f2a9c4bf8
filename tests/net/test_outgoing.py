"""Connections out over real sockets: they connect, carry bytes both ways, and report their end once."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvloop

from ottla.net.outgoing import OutgoingSockets

LARGE = bytes(range(256)) * 40_000


class Received:
    """A wire that keeps what comes."""

    def __init__(self) -> None:
        self.is_connected = False
        self.data = bytearray()
        self.reasons: list[str] = []
        self._buffer = bytearray(64 * 1024)

    def connected(self) -> None:
        self.is_connected = True

    def buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def received(self, count: int) -> None:
        self.data += self._buffer[:count]

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)


def run(scenario: Callable[[OutgoingSockets], Awaitable[None]]) -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            await asyncio.wait_for(scenario(OutgoingSockets(asyncio.get_running_loop(), executor)), 10)

    uvloop.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_bytes_go_both_ways_also_when_the_socket_takes_them_in_parts(host: str) -> None:
    async def scenario(sockets: OutgoingSockets) -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(1 << 20):
                writer.write(data)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        received = Received()
        channel = sockets.open((host, server.sockets[0].getsockname()[1]), received)
        await until(lambda: received.is_connected)
        channel.send([b"first", b"", b" second "])
        channel.send([LARGE, b"last"])
        expected = b"first second " + LARGE + b"last"
        await until(lambda: len(received.data) == len(expected))
        assert received.data == expected
        channel.close()
        server.close()
        await asyncio.sleep(0.01)
        assert received.reasons == []

    run(scenario)


def test_a_port_where_nobody_listens_is_not_reached() -> None:
    async def scenario(sockets: OutgoingSockets) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            received = Received()
            sockets.open(unused.getsockname(), received)
            await until(lambda: bool(received.reasons))
        assert received.reasons == ["not reached: Connection refused"]
        assert not received.is_connected

    run(scenario)


def test_a_name_that_nobody_knows_is_not_reached() -> None:
    async def scenario(sockets: OutgoingSockets) -> None:
        received = Received()
        sockets.open(("broker.invalid", 9092), received)
        await until(lambda: bool(received.reasons))
        assert received.reasons[0].startswith("not reached: the name was not resolved: ")

    run(scenario)


def test_the_end_of_the_peer_is_reported_once() -> None:
    async def scenario(sockets: OutgoingSockets) -> None:
        async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"bye")
            writer.close()

        server = await asyncio.start_server(close, "127.0.0.1", 0)
        received = Received()
        channel = sockets.open(("127.0.0.1", server.sockets[0].getsockname()[1]), received)
        await until(lambda: bool(received.reasons))
        channel.send([b"too late"])
        await asyncio.sleep(0.01)
        assert received.data == b"bye"
        assert received.reasons == ["the broker closed the connection"]
        server.close()

    run(scenario)


def test_nothing_is_reported_after_close() -> None:
    async def scenario(sockets: OutgoingSockets) -> None:
        received = Received()
        sockets.open(("127.0.0.1", 1), received).close()
        await asyncio.sleep(0.01)
        assert not received.is_connected
        assert received.reasons == []

    run(scenario)


def test_timers_run_on_the_clock_of_the_loop() -> None:
    async def scenario(sockets: OutgoingSockets) -> None:
        ran: list[str] = []
        started_ms = sockets.now_ms()
        sockets.call_later(5, lambda: ran.append("later"))
        sockets.call_later(1, lambda: ran.append("never")).cancel()
        sockets.call_soon(lambda: ran.append("soon"))
        await until(lambda: len(ran) == 2)
        assert ran == ["soon", "later"]
        assert sockets.now_ms() >= started_ms + 4

    run(scenario)
