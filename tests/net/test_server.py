"""The life of a server, large frames, and fairness between connections."""

import os
import socket
import threading

import pytest

from ottla.core.config.listeners import Listener
from ottla.core.exchange import Deferred
from ottla.net.acceptor import BindError
from ottla.net.connection import Connection
from ottla.net.limits import NetworkLimits

from .harness import WAIT_S, Client, RunningServer, echo, frame


def test_bound_server_lets_clients_connect_and_serves_them_once_it_accepts() -> None:
    with RunningServer(echo, is_accepting=False) as running:
        client = running.connect()
        client.send(frame(b"early"))
        assert running.settled().metrics.accepted == 0
        running.call(running.server.start_accepting)
        assert client.receive() == b"early"


def test_several_listeners_are_served_and_a_handler_knows_which() -> None:
    def name_of(received: memoryview, peer: object) -> bytes:
        assert isinstance(peer, Connection)
        return frame(f"{peer.listener_name} {peer.address}".encode())

    with RunningServer(name_of) as running:
        more = [Listener("OTHER", "localhost", 0), Listener("ALL", "", 0)]
        bound = running.call(lambda: running.server.bind(more))
        assert [listener.name for listener in bound] == ["PLAINTEXT", "OTHER", "ALL"]
        running.call(running.server.start_accepting)
        for listener in bound:
            client = Client(listener.port)
            assert client.ask(b"?") == f"{listener.name} 127.0.0.1".encode()
            client.close()


def test_port_that_is_taken_is_named_and_nothing_stays_bound() -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with taken, RunningServer(echo) as running:
        listeners = [Listener("A", "127.0.0.1", 0), Listener("B", "127.0.0.1", port)]
        with pytest.raises(BindError, match=f"B://127.0.0.1:{port}: can't listen there"):
            running.server.bind(listeners)
        assert running.server.listeners == ()


@pytest.mark.parametrize("size", [1, 4096, 4097, 8188, 8192, 131_072, 1_000_003, 20_000_000])
def test_frames_of_every_size_arrive_whole(size: int) -> None:
    body = os.urandom(size)
    with RunningServer(echo) as running:
        client = running.connect()
        for _ in range(2):
            assert client.ask(body) == body
        # And between small ones, in one stream.
        sender = threading.Thread(target=lambda: client.send(frame(b"a") + frame(body) + frame(b"b") + frame(body)))
        sender.start()
        assert [client.receive() for _ in range(4)] == [b"a", body, b"b", body]
        sender.join()


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_handler_may_write_into_its_frame(size: int) -> None:
    def patch(received: memoryview, peer: object) -> bytes:
        received[:3] = b"new"
        return frame(bytes(received))

    with RunningServer(patch) as running:
        assert running.connect().ask(b"old" + bytes(size)) == b"new" + bytes(size)


def test_flooding_connection_does_not_starve_a_quiet_one() -> None:
    order: list[bytes] = []
    is_quiet_sent = threading.Event()

    def note(received: memoryview, peer: object) -> None:
        assert is_quiet_sent.wait(WAIT_S)
        order.append(bytes(received[:5]))

    with RunningServer(note) as running:
        flooding, quiet = running.connect(), running.connect()
        running.wait_until(lambda: running.server.metrics.connections == 2)
        flooding.send(frame(b"flood") * 20_000)
        quiet.send(frame(b"quiet"))
        is_quiet_sent.set()
        running.wait_until(lambda: len(order) == 20_001)
        assert order.index(b"quiet") < 5_000


def test_stop_answers_what_was_started_then_closes() -> None:
    parked: list[Deferred] = []
    stopped = threading.Event()

    def park(received: memoryview, peer: object) -> bytes | Deferred:
        if received != b"wait":
            return frame(b"ok")
        parked.append(Deferred(holds=False))
        return parked[-1]

    with RunningServer(park) as running:
        idle, waiting = running.connect(), running.connect()
        assert idle.ask(b"hello") == b"ok"
        waiting.send(frame(b"wait"))
        running.wait_until(lambda: len(parked) == 1)
        running.call(lambda: running.server.stop(drain_ms=600_000, on_stopped=stopped.set))
        assert idle.is_closed_by_peer()
        with pytest.raises(ConnectionRefusedError):
            running.connect()
        assert not stopped.is_set()
        waiting.send(frame(b"not started any more"))
        running.complete(parked[0], frame(b"answered"))
        assert waiting.receive() == b"answered"
        assert waiting.is_closed_by_peer()
        assert stopped.wait(WAIT_S)


def test_stop_does_not_wait_longer_than_it_may() -> None:
    abandoned, stopped = threading.Event(), threading.Event()
    started = threading.Event()

    def park(received: memoryview, peer: object) -> Deferred:
        deferred = Deferred(holds=True)
        deferred.on_abandon = abandoned.set
        started.set()
        return deferred

    with RunningServer(park) as running:
        client = running.connect()
        client.send(frame(b"wait"))
        assert started.wait(WAIT_S)
        running.call(lambda: running.server.stop(drain_ms=20, on_stopped=stopped.set))
        assert client.is_closed_by_peer()
        assert abandoned.wait(WAIT_S)
        assert stopped.wait(WAIT_S)


def test_stop_sends_a_large_answer_to_its_end() -> None:
    stopped = threading.Event()
    answer = frame(os.urandom(3_000_000))
    with RunningServer(lambda received, peer: answer, NetworkLimits(socket_send_buffer_bytes=50_000)) as running:
        client = running.connect(receive_buffer_bytes=20_000)
        client.send(frame(b"?"))
        running.wait_until(lambda: running.server.metrics.frames == 1)
        running.call(lambda: running.server.stop(drain_ms=600_000, on_stopped=stopped.set))
        assert client.receive_exactly(len(answer)) == answer
        assert client.is_closed_by_peer()
        assert stopped.wait(WAIT_S)


def test_stop_without_connections_is_over_at_once() -> None:
    stopped = threading.Event()
    with RunningServer(echo) as running:
        running.call(lambda: running.server.stop(drain_ms=600_000, on_stopped=stopped.set))
        assert stopped.wait(WAIT_S)
