"""Connections with nothing but deferrable requests: read together, and back with the loop at the first other one."""

import pytest

from ottla.core.exchange import Answer, Deferred, Peer
from ottla.net.limits import NetworkLimits
from tests.net.harness import Client, RunningServer, frame

DEFERRABLE = b"heartbeat"
TURNS_UNTIL_BATCHED = 3
LARGE_BYTES = 20_000_000  # no socket takes it at once


class Handler:
    """Echoes; a heartbeat is deferrable, what begins with `hold` is answered by the test."""

    def __init__(self) -> None:
        self.held: list[Deferred] = []

    def __call__(self, received: memoryview, peer: Peer) -> Answer | Deferred:
        body = bytes(received)
        if body.startswith(b"hold"):
            self.held.append(Deferred(holds=True))
            return self.held[-1]
        peer.is_deferrable = body.startswith(DEFERRABLE)
        if body.endswith(b"large"):
            return frame(bytes(LARGE_BYTES))
        return frame(body)


def batched_count(server: RunningServer) -> int:
    return server.settled().batched_connections


def make_batched(server: RunningServer) -> Client:
    client = server.connect()
    for _ in range(TURNS_UNTIL_BATCHED):
        assert client.ask(DEFERRABLE) == DEFERRABLE
    return client


def test_becomes_batched_after_some_deferrable_requests_in_a_row_and_is_still_served() -> None:
    with RunningServer(Handler()) as server:
        client = server.connect()
        for turn in range(3 * TURNS_UNTIL_BATCHED):
            assert batched_count(server) == (turn >= TURNS_UNTIL_BATCHED)
            assert client.ask(DEFERRABLE) == DEFERRABLE


def test_another_request_begins_the_count_anew() -> None:
    with RunningServer(Handler()) as server:
        client = server.connect()
        for _ in range(5):
            for body in (DEFERRABLE, DEFERRABLE, b"produce"):
                assert client.ask(body) == body
        assert batched_count(server) == 0


def test_requests_that_come_together_are_not_deferrable() -> None:
    with RunningServer(Handler()) as server:
        client = server.connect()
        for _ in range(5):
            client.send(frame(DEFERRABLE) + frame(DEFERRABLE))
            assert [client.receive(), client.receive()] == [DEFERRABLE, DEFERRABLE]
        assert batched_count(server) == 0


@pytest.mark.parametrize("body", [b"produce", b"large", DEFERRABLE + b" large"])
def test_another_request_or_a_large_answer_ends_the_batched_mode(body: bytes) -> None:
    with RunningServer(Handler()) as server:
        client = make_batched(server)
        assert batched_count(server) == 1
        answer = client.ask(body)
        assert answer == body or len(answer) == LARGE_BYTES
        assert batched_count(server) == 0
        assert client.ask(b"next") == b"next"


def test_request_that_waits_ends_the_batched_mode_and_the_next_one_comes_after_it() -> None:
    handler = Handler()
    with RunningServer(handler) as server:
        client = make_batched(server)
        client.send(frame(b"hold"))
        server.wait_until(lambda: len(handler.held) == 1)
        assert batched_count(server) == 0
        client.send(frame(b"next"))
        server.complete(handler.held[0], frame(b"held"))
        assert [client.receive(), client.receive()] == [b"held", b"next"]


def test_frame_in_pieces_ends_the_batched_mode_and_is_read_to_its_end() -> None:
    with RunningServer(Handler()) as server:
        client = make_batched(server)
        whole = frame(DEFERRABLE)
        client.send(whole[:6])
        server.wait_until(lambda: server.server.batched_connections == 0)
        client.send(whole[6:])
        assert client.receive() == DEFERRABLE


def test_peer_that_goes_is_forgotten() -> None:
    with RunningServer(Handler()) as server:
        clients = [make_batched(server) for _ in range(3)]
        for client in clients:
            client.close()
        server.wait_until(lambda: server.server.metrics.connections == 0)
        assert batched_count(server) == 0
        assert make_batched(server).ask(DEFERRABLE) == DEFERRABLE  # and the next ones are looked after again


def test_frame_of_a_foreign_protocol_closes_a_batched_connection() -> None:
    with RunningServer(Handler()) as server:
        client = make_batched(server)
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        assert client.is_closed_by_peer()
        assert batched_count(server) == 0


def test_more_than_fit_into_a_turn_are_all_served() -> None:
    with RunningServer(Handler()) as server:
        clients = [make_batched(server) for _ in range(300)]
        assert batched_count(server) == 300
        for _ in range(2):
            for client in clients:
                client.send(frame(DEFERRABLE))
            assert all(client.receive() == DEFERRABLE for client in clients)
        assert batched_count(server) == 300


@pytest.mark.slow  # waits two seconds of real time
def test_idle_batched_connection_is_closed() -> None:
    with RunningServer(Handler(), NetworkLimits(connections_max_idle_ms=2_000, sweep_interval_ms=50)) as server:
        client = make_batched(server)
        assert client.is_closed_by_peer()
        assert server.settled().metrics.closed == {"idle": 1}
        assert batched_count(server) == 0


def test_stop_closes_batched_connections() -> None:
    with RunningServer(Handler()) as server:
        clients = [make_batched(server) for _ in range(3)]
        stopped: list[bool] = []
        server.call(lambda: server.server.stop(drain_ms=60_000, on_stopped=lambda: stopped.append(True)))
        assert all(client.is_closed_by_peer() for client in clients)
        server.wait_until(lambda: bool(stopped))
        assert batched_count(server) == 0
