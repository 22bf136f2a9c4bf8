"""Answers in the order of pipelined requests, requests that wait, and what they hold back."""

import gc
import queue
import socket
import struct
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.errors import ProtocolViolation
from ottla.core.exchange import Deferred
from ottla.net.limits import NetworkLimits

from .harness import WAIT_S, Client, RunningServer, echo, frame


class Parking:
    """A handler that parks `wait…` (not holding) and `hold…` (holding), and answers everything else with itself."""

    def __init__(self) -> None:
        self.parked: queue.Queue[tuple[bytes, Deferred]] = queue.Queue()
        self.started: list[bytes] = []
        self.abandoned: list[bytes] = []

    def __call__(self, received: memoryview, peer: object) -> bytes | Deferred | None:
        body = bytes(received)
        self.started.append(body)
        if body.startswith((b"wait", b"hold")):
            deferred = Deferred(holds=body.startswith(b"hold"))
            deferred.on_abandon = lambda: self.abandoned.append(body)
            self.parked.put((body, deferred))
            return deferred
        return None if body.startswith(b"silent") else frame(body)

    def take(self) -> tuple[bytes, Deferred]:
        return self.parked.get(timeout=WAIT_S)


def test_pipelined_requests_are_answered_in_order_from_however_many_pieces() -> None:
    bodies = [str(number).encode() * (1 + number % 700) for number in range(3000)]
    stream = b"".join(map(frame, bodies))
    with RunningServer(echo) as running:
        client = running.connect()
        # Cut at odd places: the server sees frames split in their size, their body and at their ends.
        position = 0
        for step in (1, 2, 3, 5, 10_007, len(stream)):
            client.send(stream[position : position + step])
            position += step
            if position < 20:
                running.call(lambda: None)
        for body in bodies:
            assert client.receive() == body


def test_answers_wait_for_an_earlier_deferred_one_but_requests_start() -> None:
    parking = Parking()
    with RunningServer(parking) as running:
        client = running.connect()
        client.send(b"".join(map(frame, [b"first", b"wait-1", b"second", b"wait-2", b"third"])))
        assert client.receive() == b"first"
        _, one = parking.take()
        _, two = parking.take()
        assert running.call(lambda: list(parking.started)) == [b"first", b"wait-1", b"second", b"wait-2", b"third"]
        running.complete(two, frame(b"answer-2"))
        running.complete(one, frame(b"answer-1"))
        assert [client.receive() for _ in range(4)] == [b"answer-1", b"second", b"answer-2", b"third"]


def test_holding_request_stops_later_ones_from_starting_until_it_is_answered() -> None:
    parking = Parking()
    with RunningServer(parking) as running:
        client = running.connect()
        client.send(b"".join(map(frame, [b"hold-1", b"next", b"hold-2", b"last"])))
        _, one = parking.take()
        assert running.call(lambda: list(parking.started)) == [b"hold-1"]
        running.complete(one, frame(b"answer-1"))
        assert client.receive() == b"answer-1"
        assert client.receive() == b"next"
        _, two = parking.take()
        assert running.call(lambda: list(parking.started)) == [b"hold-1", b"next", b"hold-2"]
        running.complete(two, None)
        assert client.receive() == b"last"


def test_holding_request_stops_the_reading_of_what_comes_later() -> None:
    parking = Parking()
    with RunningServer(parking) as running:
        client = running.connect()
        client.send(frame(b"hold"))
        _, held = parking.take()
        # More than the kernel's buffers hold: it gets stuck, because nobody reads.
        flood = frame(bytes(60_000)) * 1000
        assert _send_until_stuck(client, flood) < len(flood)
        assert running.settled().in_flight_bytes < 200_000
        client.socket.settimeout(WAIT_S)
        running.complete(held, frame(b"released"))
        assert client.receive() == b"released"
        assert len(client.receive()) == 60_000


def _send_until_stuck(client: Client, data: bytes) -> int:
    client.socket.settimeout(0.05)
    sent = 0
    while sent < len(data):
        try:
            sent += client.socket.send(data[sent:])
        except TimeoutError:
            break
    return sent


def test_deferred_that_is_complete_when_returned_is_an_answer() -> None:
    def at_once(received: memoryview, peer: object) -> Deferred:
        deferred = Deferred(holds=True)
        deferred.complete(frame(bytes(received)) if received != b"silent" else None)
        return deferred

    with RunningServer(at_once) as running:
        client = running.connect()
        client.send(frame(b"one") + frame(b"silent") + frame(b"two"))
        assert client.receive() == b"one"
        assert client.receive() == b"two"


def test_request_that_another_connection_completes_in_its_turn_is_answered() -> None:
    parked: list[Deferred] = []

    def handler(received: memoryview, peer: object) -> bytes | Deferred:
        if received == b"wait":
            parked.append(Deferred(holds=True))
            return parked[-1]
        for deferred in parked:
            deferred.complete(frame(b"woken by " + bytes(received)))
        return frame(b"done")

    with RunningServer(handler) as running:
        waiting, waking = running.connect(), running.connect()
        waiting.send(frame(b"wait") + frame(b"behind"))
        running.wait_until(lambda: len(parked) == 1)
        assert waking.ask(b"waker") == b"done"
        assert waiting.receive() == b"woken by waker"
        assert waiting.receive() == b"done"


@pytest.mark.parametrize("kind", [b"wait", b"hold"])
def test_requests_that_wait_are_abandoned_when_their_connection_ends(kind: bytes) -> None:
    parking = Parking()
    with RunningServer(parking) as running:
        client = running.connect()
        client.send(frame(kind))
        _, deferred = parking.take()
        client.close()
        running.wait_until(lambda: parking.abandoned == [kind])
        running.complete(deferred, frame(b"too late"))
        assert running.settled().metrics.connections == 0


def end_connection(client: Client, end: str) -> None:
    if end == "half closed":
        client.socket.shutdown(socket.SHUT_WR)
    else:
        if end == "reset":
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()


@pytest.mark.parametrize("end", ["closed", "half closed", "reset"])
def test_requests_that_were_read_are_started_in_order_before_the_connection_ends(end: str) -> None:
    parking = Parking()
    with RunningServer(parking) as running:
        client = running.connect()
        bodies = [b"hold 1", *(b"silent %d" % number for number in range(200)), b"hold 2", b"silent 200"]
        client.send(b"".join(map(frame, bodies)))
        _, first = parking.take()  # what came behind it was read with it, and waits
        end_connection(client, end)
        running.turn()
        running.complete(first, None)
        _, second = parking.take()
        running.complete(second, None)
        running.wait_until(lambda: running.server.metrics.connections == 0)
        assert parking.started == bodies
        assert running.settled().in_flight_bytes == 0


def test_peer_that_half_closes_gets_the_answers_to_what_was_read() -> None:
    parking = Parking()
    with RunningServer(parking) as running:
        client = running.connect()
        client.send(frame(b"hold") + frame(b"one") + frame(b"two"))
        _, deferred = parking.take()
        end_connection(client, "half closed")
        running.turn()
        running.complete(deferred, frame(b"held"))
        assert [client.receive() for _ in range(3)] == [b"held", b"one", b"two"]
        assert client.is_closed_by_peer()


def test_peer_that_half_closes_gets_the_rest_of_a_long_answer() -> None:
    answer = bytes(8_000_000)
    with RunningServer(lambda received, peer: frame(answer)) as running:
        client = running.connect(receive_buffer_bytes=4096)
        client.send(frame(b"?"))
        running.wait_until(lambda: 0 < running.server.metrics.bytes_out < len(answer))
        end_connection(client, "half closed")
        running.turn()
        assert client.receive() == answer
        assert client.is_closed_by_peer()


def test_peer_that_half_closes_within_a_large_frame_gets_the_answers_before_it() -> None:
    with RunningServer(echo) as running:
        client = running.connect()
        client.send(frame(b"one") + frame(b"two") + (2_000_000).to_bytes(4, "big") + bytes(1_000_000))
        client.socket.shutdown(socket.SHUT_WR)
        assert [client.receive(), client.receive()] == [b"one", b"two"]
        assert client.is_closed_by_peer()


def test_peer_that_is_gone_is_not_waited_for_without_end() -> None:
    parking = Parking()
    with RunningServer(parking, NetworkLimits(frame_deadline_ms=20, sweep_interval_ms=5)) as running:
        client = running.connect()
        client.send(frame(b"hold") + frame(b"never started"))
        parking.take()
        end_connection(client, "closed")
        running.wait_until(lambda: parking.abandoned == [b"hold"])
        running.wait_until(lambda: running.server.metrics.connections == 0)
        assert parking.started == [b"hold"]


def test_failing_abandonment_does_not_keep_the_others_waiting() -> None:
    abandoned: list[str] = []
    parked: list[Deferred] = []

    def fail() -> None:
        raise ZeroDivisionError

    def handler(received: memoryview, peer: object) -> Deferred:
        deferred = Deferred(holds=False)
        deferred.on_abandon = fail if received == b"bad" else lambda: abandoned.append("good")
        parked.append(deferred)
        return deferred

    with RunningServer(handler) as running:
        client = running.connect()
        client.send(frame(b"bad") + frame(b"good"))
        running.wait_until(lambda: len(parked) == 2)
        client.close()
        running.wait_until(lambda: abandoned == ["good"])


@settings(max_examples=40, deadline=None)
@given(
    kinds=st.lists(st.sampled_from([b"now", b"wait", b"hold", b"silent"]), max_size=40),
    choices=st.lists(st.integers(0, 5), max_size=40),
)
def test_order_holds_whatever_waits_and_completes_when(kinds: list[bytes], choices: list[int]) -> None:
    parking = Parking()
    bodies = [kind + str(index).encode() for index, kind in enumerate(kinds)]
    with RunningServer(parking) as running:
        client = running.connect()
        client.send(b"".join(map(frame, bodies)) + frame(b"end"))
        _complete_all(running, parking, choices)
        expected = [body for body in bodies if not body.startswith(b"silent")]
        assert _receive_until_end(client) == expected
        assert running.call(lambda: list(parking.started)) == [*bodies, b"end"]


def _complete_all(running: RunningServer, parking: Parking, choices: list[int]) -> None:
    waiting: list[tuple[bytes, Deferred]] = []
    picks = iter(choices)
    while True:
        running.wait_until(lambda: b"end" in parking.started or not parking.parked.empty() or bool(waiting))
        while not parking.parked.empty():
            waiting.append(parking.parked.get())
        if not waiting:
            if b"end" in parking.started and parking.parked.empty():
                return
            continue
        body, deferred = waiting.pop(next(picks, 0) % len(waiting))
        running.complete(deferred, frame(body))


def _receive_until_end(client: Client) -> list[bytes]:
    received: list[bytes] = []
    while (body := client.receive()) != b"end":
        received.append(body)
    return received


def test_closed_connection_is_not_kept_in_memory_by_a_request_that_others_hold() -> None:
    references: list[weakref.ref[object]] = []
    parked: list[Deferred] = []

    def park(received: memoryview, peer: object) -> Deferred:
        references.append(weakref.ref(peer))
        parked.append(Deferred(holds=True))
        return parked[-1]

    with RunningServer(park, NetworkLimits(sweep_interval_ms=5)) as running:
        client = running.connect()
        client.send(frame(b"hold") + b"\x00")
        running.wait_until(lambda: len(parked) == 1)
        gc.disable()  # nothing is left that only a collection would find
        try:
            client.close()
            running.wait_until(lambda: references[0]() is None)
        finally:
            gc.enable()


def test_deferred_that_fails_closes_its_connection_after_the_answers_before_it() -> None:
    waiting: list[Deferred] = []

    def handler(received: memoryview, peer: object) -> bytes | Deferred:
        if bytes(received) == b"later":
            waiting.append(Deferred(holds=True))
            return waiting[-1]
        return frame(bytes(received))

    with RunningServer(handler) as running:
        client, other = running.connect(), running.connect()
        client.send(frame(b"now") + frame(b"later") + frame(b"never started"))
        assert client.receive() == b"now"
        running.settled()
        running.call(lambda: waiting[0].fail(ProtocolViolation("refused")))
        assert client.is_closed_by_peer()
        assert other.ask(b"still") == b"still"
