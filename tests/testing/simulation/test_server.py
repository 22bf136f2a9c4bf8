"""The network of a simulated broker: frames, the order of answers, what holds a connection back, and its end."""

import pytest

from ottla.core.config.listeners import Listener
from ottla.core.disk import FileSlice
from ottla.core.errors import ProtocolViolation
from ottla.core.exchange import Answer, Deferred, Peer
from ottla.net.limits import NetworkLimits
from ottla.testing.simulated_disk import SimulatedDisk
from ottla.testing.simulation.network import Latency, SimulatedNetwork
from ottla.testing.simulation.scheduler import ProcessLoop, Scheduler
from ottla.testing.simulation.server import SimulatedServer
from tests.testing.simulation.test_network import End


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Rig:
    """A server whose handler does what the frame says, and one client."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(3)
        network = SimulatedNetwork(self.scheduler, Latency(split_chance=0.5))
        self.server_loop = ProcessLoop(self.scheduler, "server")
        self.server = SimulatedServer(
            network, network.host("server"), self.server_loop, self._handle, NetworkLimits(socket_request_max_bytes=100)
        )
        self.bound = self.server.bind([Listener("PLAINTEXT", "server", 9092), Listener("OTHER", "server", 0)])
        self.server.start_accepting()
        self.handled: list[bytes] = []
        self.views: list[memoryview] = []
        self.peers: list[Peer] = []
        self.waiting: dict[bytes, Deferred] = {}
        self.abandoned: list[bytes] = []
        self.disk = SimulatedDisk()
        self.end = End()
        client_loop = ProcessLoop(self.scheduler, "client")
        self.client = network.connect(network.host("client"), client_loop, ("server", 9092), self.end)
        self.run()

    def _handle(self, received: memoryview, peer: Peer) -> Answer | Deferred | None:
        body = bytes(received)
        self.handled.append(body)
        self.views.append(received)
        self.peers.append(peer)
        if body.startswith((b"hold", b"wait")):
            deferred = self.waiting[body] = Deferred(holds=body.startswith(b"hold"))
            deferred.on_abandon = lambda: self.abandoned.append(body)
            return deferred
        if body == b"nothing":
            return None
        if body == b"violation":
            raise ProtocolViolation("garbage")
        if body.startswith(b"file"):
            wanted = int(body[4:])
            file = self.disk.open_append("/file")
            file.append(b"0123456789")
            return [wanted.to_bytes(4, "big"), FileSlice(self.disk.open_read("/file"), 0, wanted)]
        return frame(body)

    def send(self, *bodies: bytes) -> None:
        for body in bodies:
            self.client.send(frame(body))
        self.run()

    def run(self, seconds: float = 1.0) -> None:
        self.scheduler.run_until(self.scheduler.now + seconds)

    def answers(self) -> list[bytes]:
        data, found = self.end.data, []
        while data:
            size = int.from_bytes(data[:4], "big")
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found


def test_frames_in_any_pieces_are_answered_in_order() -> None:
    rig = Rig()
    bodies = [b"%d" % number for number in range(50)]
    rig.send(*bodies)
    assert rig.answers() == bodies
    assert rig.peers[0].address == "client"
    assert rig.peers[0].listener_name == "PLAINTEXT"
    assert rig.bound[1].port > 0


def test_a_frame_is_garbage_after_its_handler() -> None:
    rig = Rig()
    rig.send(b"kept")
    assert bytes(rig.views[0]) == b"\xdd" * 4


def test_answers_wait_for_an_earlier_one_and_requests_do_not() -> None:
    rig = Rig()
    rig.send(b"wait", b"second", b"nothing", b"third")
    assert rig.handled == [b"wait", b"second", b"nothing", b"third"]
    assert rig.answers() == []
    rig.waiting[b"wait"].complete(frame(b"first"))
    rig.run()
    assert rig.answers() == [b"first", b"second", b"third"]


def test_a_request_that_holds_lets_none_start_behind_it() -> None:
    rig = Rig()
    rig.send(b"hold", b"second")
    assert rig.handled == [b"hold"]
    rig.waiting[b"hold"].complete(frame(b"first"))
    rig.run()
    assert rig.answers() == [b"first", b"second"]


def test_what_waits_gives_up_when_the_client_is_gone() -> None:
    rig = Rig()
    rig.send(b"wait 1", b"wait 2")
    rig.client.close()
    rig.run()
    assert rig.abandoned == [b"wait 1", b"wait 2"]
    assert not rig.server.connections
    rig.waiting[b"wait 1"].complete(frame(b"late"))
    rig.run()


def test_frames_that_came_before_the_end_are_still_started() -> None:
    rig = Rig()
    rig.send(b"hold", b"second")
    rig.client.close()
    rig.run()
    assert rig.abandoned == []
    rig.waiting[b"hold"].complete(None)
    rig.run()
    assert rig.handled == [b"hold", b"second"]
    assert not rig.server.connections


@pytest.mark.parametrize("garbage", [frame(b"violation"), b"\xff\xff\xff\xff", frame(bytes(101))])
def test_a_violation_closes_the_connection_after_the_answers_before_it(garbage: bytes) -> None:
    rig = Rig()
    rig.client.send(frame(b"good") + garbage + frame(b"after"))
    rig.run()
    assert rig.answers() == [b"good"]
    assert len(rig.end.ends) == 1
    assert b"after" not in rig.handled


def test_a_deferred_violation_closes_the_connection_and_another_failure_ends_the_run() -> None:
    rig = Rig()
    rig.send(b"wait")
    rig.waiting[b"wait"].fail(ProtocolViolation("late"))
    rig.run()
    assert len(rig.end.ends) == 1
    rig = Rig()
    rig.send(b"wait")
    with pytest.raises(ValueError):
        rig.waiting[b"wait"].fail(ValueError("a bug"))


def test_slices_of_files_are_read_from_the_disk() -> None:
    rig = Rig()
    rig.send(b"file10")
    assert rig.answers() == [b"0123456789"]
    rig.disk.fail_next("pread", 5)
    rig.send(b"file10")
    assert len(rig.end.ends) == 1


def test_a_slice_of_a_file_that_was_cut_closes_the_connection() -> None:
    rig = Rig()
    rig.send(b"file11")
    assert len(rig.end.ends) == 1


def test_a_stop_answers_what_was_started_and_starts_nothing() -> None:
    rig = Rig()
    rig.send(b"wait")
    stopped: list[float] = []
    rig.server.stop(drain_ms=5_000, on_stopped=lambda: stopped.append(rig.scheduler.now))
    rig.send(b"too late")
    assert stopped == []
    rig.waiting[b"wait"].complete(frame(b"answer"))
    rig.run()
    assert rig.answers() == [b"answer"]
    assert len(stopped) == len(rig.end.ends) == 1
    assert rig.handled == [b"wait"]


def test_a_stop_waits_no_longer_than_its_limit() -> None:
    rig = Rig()
    rig.send(b"wait")
    stopped: list[float] = []
    rig.server.stop(drain_ms=5_000, on_stopped=lambda: stopped.append(rig.scheduler.now))
    rig.run(5.1)
    assert len(stopped) == 1
    assert rig.abandoned == [b"wait"]
