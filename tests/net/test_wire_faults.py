"""Faults of the wire (docs/faults.md) against a real server: bytes that no correct client sends."""

import ssl
import struct

import pytest

from ottla.core.errors import ProtocolViolation
from ottla.net.connection import Connection
from ottla.net.limits import NetworkLimits

from .harness import RunningServer, echo, frame

FAST_SWEEP = NetworkLimits(sweep_interval_ms=5, frame_deadline_ms=50)


@pytest.mark.parametrize("sent", [b"\x00", frame(b"whole")[:-1], struct.pack(">i", 300_000) + bytes(100_000)])
def test_truncated_frame_then_end_is_discarded_and_its_memory_freed(sent: bytes) -> None:
    seen: list[bytes] = []

    def record(received: memoryview, peer: object) -> bytes:
        seen.append(bytes(received))
        return frame(b"ok")

    with RunningServer(record) as running:
        client = running.connect()
        client.send(sent)
        client.close()
        running.wait_until(lambda: running.server.metrics.closed == {"peer closed inside a frame": 1})
        assert seen == []
        assert running.settled().in_flight_bytes == 0
        assert running.settled().metrics.connections == 0


@pytest.mark.parametrize("size", [-1, 0, -(2**31)])
def test_frame_size_that_is_not_positive_closes(size: int) -> None:
    with RunningServer(echo) as running:
        client = running.connect()
        client.send(struct.pack(">i", size))
        assert client.is_closed_by_peer()
        assert running.settled().metrics.closed == {"bad frame size": 1}


def test_frame_over_the_maximum_closes_before_anything_is_allocated() -> None:
    with RunningServer(echo, NetworkLimits(socket_request_max_bytes=1000)) as running:
        client = running.connect()
        assert len(client.ask(bytes(1000))) == 1000
        client.send(struct.pack(">i", 1001))
        assert client.is_closed_by_peer()
        assert running.settled().in_flight_bytes == 0
        assert running.settled().retained_bytes == 0


def test_frame_over_the_limit_before_authentication_closes() -> None:
    def demote(received: memoryview, peer: object) -> bytes:
        assert isinstance(peer, Connection)
        peer.is_authenticated = received[0] == 1
        return frame(b"ok")

    with RunningServer(demote) as running:
        client = running.connect()
        assert client.ask(b"\x00") == b"ok"
        assert client.ask(b"\x00" * 524_288) == b"ok"
        assert client.ask(b"\x01") == b"ok"
        assert client.ask(b"\x00" * 524_289) == b"ok"
        client.send(struct.pack(">i", 524_289))
        assert client.is_closed_by_peer()


def test_violation_closes_its_connection_after_the_answers_before_it_and_no_other() -> None:
    def strict(received: memoryview, peer: object) -> bytes:
        if received == b"garbage":
            raise ProtocolViolation("array of 2147483647 in 7 bytes")
        return frame(bytes(received))

    with RunningServer(strict) as running:
        bad, good = running.connect(), running.connect()
        assert good.ask(b"before") == b"before"
        bad.send(frame(b"fine") + frame(b"garbage") + frame(b"never started"))
        assert bad.receive() == b"fine"
        assert bad.is_closed_by_peer()
        assert good.ask(b"after") == b"after"
        assert running.settled().metrics.frames == 4
        assert running.settled().metrics.closed == {"protocol violation": 1}


def test_handler_that_fails_costs_only_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    def buggy(received: memoryview, peer: object) -> bytes:
        if received == b"bug":
            raise ZeroDivisionError("the bug")
        return frame(b"ok")

    with RunningServer(buggy) as running:
        bad, good = running.connect(), running.connect()
        bad.send(frame(b"bug"))
        assert bad.is_closed_by_peer()
        assert good.ask(b"fine") == b"ok"
    assert "the bug" in caplog.text


@pytest.mark.parametrize("size", [100, 100_000])
def test_frame_that_comes_byte_by_byte_is_cut_at_its_deadline(size: int) -> None:
    with RunningServer(echo, FAST_SWEEP) as running:
        client = running.connect()
        client.send(struct.pack(">i", size))
        closed = False
        while not closed:  # one byte for every tick: each is progress, none resets the clock
            tick = running.call(lambda: running.server._environment.tick)
            try:
                client.send(b"x")
            except (BrokenPipeError, ConnectionResetError):
                break
            running.wait_until(
                lambda tick=tick: running.server.metrics.connections == 0 or running.server._environment.tick > tick
            )
            closed = running.server.metrics.connections == 0
        assert running.settled().metrics.closed == {"frame deadline": 1}
        assert running.settled().in_flight_bytes == 0


def test_announced_size_with_nothing_after_it_is_cut_at_its_deadline() -> None:
    with RunningServer(echo, FAST_SWEEP) as running:
        client = running.connect()
        client.send(struct.pack(">i", 100_000))
        assert client.is_closed_by_peer()
        assert running.settled().metrics.closed == {"frame deadline": 1}


def test_frame_deadline_leaves_connections_alone_that_are_between_frames() -> None:
    with RunningServer(echo, FAST_SWEEP) as running:
        quiet, slow = running.connect(), running.connect()
        assert quiet.ask(b"one") == b"one"
        slow.send(b"\x00\x00")
        assert slow.is_closed_by_peer()
        assert quiet.ask(b"two") == b"two"


@pytest.mark.parametrize("max_bytes", [104_857_600, 2_147_483_647])
def test_tls_hello_on_a_plain_port_closes(max_bytes: int) -> None:
    hello = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_side = context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client_side.do_handshake()
    with RunningServer(echo, NetworkLimits(socket_request_max_bytes=max_bytes)) as running:
        client = running.connect()
        client.send(hello.read())
        assert client.is_closed_by_peer()
        assert running.settled().metrics.frames == 0


@pytest.mark.parametrize("max_bytes", [104_857_600, 2_147_483_647])
def test_http_request_on_a_plain_port_closes(max_bytes: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.net")
    with RunningServer(echo, NetworkLimits(socket_request_max_bytes=max_bytes)) as running:
        client = running.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.is_closed_by_peer()
    assert "HTTP" in caplog.text


def test_many_violations_are_not_all_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.net")
    with RunningServer(echo, NetworkLimits(sweep_interval_ms=600_000)) as running:
        for _ in range(100):
            client = running.connect()
            client.send(struct.pack(">i", -5))
            assert client.is_closed_by_peer()
    assert len(caplog.records) <= 25
