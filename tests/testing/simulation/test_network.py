"""Byte streams between simulated processes, and the faults that break them."""

from collections.abc import Callable

import pytest

from ottla.testing.simulation.endpoint import CLOSED, RESET, Endpoint
from ottla.testing.simulation.network import Latency, SimulatedNetwork
from ottla.testing.simulation.scheduler import ProcessLoop, Scheduler

REFUSED = "not reached: Connection refused"


class End:
    """One end of a connection that keeps what comes."""

    def __init__(self) -> None:
        self.is_connected = False
        self.pieces: list[bytes] = []
        self.ends: list[str] = []

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    def on_connected(self) -> None:
        self.is_connected = True

    def on_bytes(self, data: bytes) -> None:
        assert data
        self.pieces.append(data)

    def on_end(self, reason: str) -> None:
        self.ends.append(reason)


class Rig:
    """A client and a server, and a third."""

    def __init__(self, seed: int = 1, latency: Latency | None = None) -> None:
        self.scheduler = Scheduler(seed)
        self.network = SimulatedNetwork(self.scheduler, latency)
        self.loops = {name: ProcessLoop(self.scheduler, name) for name in ("client", "server", "other")}
        self.accepted: list[tuple[Endpoint, End]] = []
        self.client_end = End()
        for name in self.loops:
            self.network.host(name)

    def listen(self, *, accepts: bool = True) -> None:
        listener = self.network.listen(self.network.host("server"), 9092, self.loops["server"])
        if accepts:
            self.network.accept(listener, self._on_accept)

    def _on_accept(self, endpoint: Endpoint) -> None:
        end = End()
        endpoint.receiver = end
        self.accepted.append((endpoint, end))

    def open(self, receiver: End | None = None, address: tuple[str, int] = ("server", 9092)) -> Endpoint:
        return self.network.connect(
            self.network.host("client"), self.loops["client"], address, receiver or self.client_end
        )

    def connect(self) -> Endpoint:
        """A connection that stands on both sides."""
        self.listen()
        client = self.open()
        self.run_for(0.2)
        assert self.client_end.is_connected
        assert len(self.accepted) == 1
        return client

    @property
    def server(self) -> Endpoint:
        return self.accepted[-1][0]

    @property
    def server_end(self) -> End:
        return self.accepted[-1][1]

    def run_for(self, seconds: float = 1.0) -> None:
        self.scheduler.run_until(self.scheduler.now + seconds)

    def at(self, when: float, callback: Callable[[], None]) -> None:
        self.scheduler.call_at(when, callback)


def test_bytes_come_in_order_in_both_directions_and_in_any_pieces() -> None:
    rig = Rig(latency=Latency(split_chance=0.5))
    client = rig.connect()
    sent = [bytes([number]) * (number + 1) for number in range(100)]
    for number, data in enumerate(sent):
        rig.at(rig.scheduler.now + number * 0.000_1, lambda data=data: client.send(data))  # type: ignore[misc]
    rig.server.send(b"hello")
    rig.run_for()
    assert rig.server_end.data == b"".join(sent)
    assert rig.server_end.pieces != sent
    assert rig.client_end.data == b"hello"


def test_what_is_sent_in_one_turn_is_one_packet() -> None:
    rig = Rig(latency=Latency(split_chance=0))
    client = rig.connect()
    client.send(b"a")
    client.send(b"b")
    rig.run_for()
    assert rig.server_end.pieces == [b"ab"]


def test_the_end_comes_behind_the_bytes() -> None:
    rig = Rig()
    client = rig.connect()
    client.send(b"last")
    client.close()
    client.close()
    client.send(b"too late")
    rig.run_for()
    assert rig.server_end.data == b"last"
    assert rig.server_end.ends == [CLOSED]
    assert rig.client_end.ends == []


def test_a_port_without_listener_refuses_and_an_unknown_name_is_not_resolved() -> None:
    rig = Rig()
    rig.open()
    unknown = End()
    rig.open(unknown, ("nowhere", 9092))
    rig.run_for()
    assert rig.client_end.ends == [REFUSED]
    assert unknown.ends == ["not reached: the name was not resolved"]


def test_a_host_that_refuses() -> None:
    rig = Rig()
    rig.listen()
    rig.network.refuse("server")
    rig.open()
    rig.run_for()
    assert rig.client_end.ends == [REFUSED]
    rig.network.heal_all()
    again = End()
    rig.open(again)
    rig.run_for()
    assert again.is_connected


def test_connections_wait_in_the_backlog_until_they_are_accepted() -> None:
    rig = Rig()
    listener = rig.network.listen(rig.network.host("server"), 9092, rig.loops["server"])
    client = rig.open()
    rig.run_for()
    assert rig.client_end.is_connected
    assert rig.accepted == []
    client.send(b"early")
    rig.run_for()
    rig.network.accept(listener, rig._on_accept)
    rig.run_for()
    assert rig.server_end.data == b"early"


def test_a_port_is_bound_once() -> None:
    rig = Rig()
    rig.listen()
    with pytest.raises(OSError, match="in use"):
        rig.listen()


def test_a_stopped_process_is_connected_to_and_gets_its_bytes_when_it_goes_on() -> None:
    rig = Rig()
    rig.listen()
    rig.loops["server"].stop()
    client = rig.open()
    rig.run_for()
    assert rig.client_end.is_connected
    client.send(b"one")
    rig.run_for()
    client.send(b"two")
    client.close()
    rig.run_for()
    assert rig.accepted == []
    rig.loops["server"].go_on()
    rig.run_for()
    assert rig.server_end.data == b"onetwo"
    assert rig.server_end.ends == [CLOSED]


def test_a_stalled_end_holds_its_bytes_and_the_other_does_not() -> None:
    rig = Rig()
    client = rig.connect()
    rig.network.stall(client)
    client.send(b"held")
    rig.server.send(b"free")
    rig.run_for(100)
    assert rig.server_end.data == b""
    assert rig.client_end.data == b"free"
    rig.network.stall(client, False)
    rig.run_for()
    assert rig.server_end.data == b"held"


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_connection_ends_on_both_sides_after_a_prefix(seed: int) -> None:
    rig = Rig(seed)
    client = rig.connect()
    for number in range(10):
        rig.at(rig.scheduler.now + number * 0.000_2, lambda number=number: client.send(bytes([number]) * 10))  # type: ignore[misc]
    rig.server.send(b"answer")
    rig.run_for(0.001)
    rig.network.cut(rig.network.connections("client", "server")[0])
    rig.run_for()
    sent = b"".join(bytes([number]) * 10 for number in range(10))
    assert sent.startswith(rig.server_end.data)
    assert b"answer".startswith(rig.client_end.data)
    assert rig.server_end.ends == [RESET]
    assert rig.client_end.ends == [RESET]
    assert rig.network.connections() == []


def test_a_partition_holds_bytes_ends_and_connects_until_it_heals() -> None:
    rig = Rig()
    client = rig.connect()
    rig.network.partition("client", "server")
    client.send(b"held")
    rig.server.send(b"as well")
    late = End()
    rig.open(late)
    rig.run_for(100)
    assert (rig.server_end.data, rig.client_end.data, late.is_connected) == (b"", b"", False)
    client.close()
    rig.run_for()
    rig.network.heal("server", "client")
    rig.run_for()
    assert late.is_connected
    first_end = rig.accepted[0][1]
    assert first_end.data == b"held"
    assert first_end.ends == [CLOSED]
    assert rig.client_end.data == b""  # it was closed by then


def test_a_partition_of_one_way_lets_the_other_through() -> None:
    rig = Rig()
    client = rig.connect()
    rig.network.partition("server", "client", one_way=True)
    client.send(b"request")
    rig.server.send(b"answer")
    rig.run_for()
    assert rig.server_end.data == b"request"
    assert rig.client_end.data == b""
    late = End()
    rig.open(late)
    rig.run_for()
    assert not late.is_connected
    assert len(rig.accepted) == 2
    rig.network.heal_all()
    rig.run_for()
    assert rig.client_end.data == b"answer"
    assert late.is_connected


def test_the_peer_of_a_killed_process_hears_of_it() -> None:
    rig = Rig()
    rig.connect()
    rig.server.send(b"last words")
    rig.loops["server"].kill()
    rig.network.end_process(rig.network.host("server"))
    rig.run_for()
    assert rig.client_end.data == b"last words"
    assert rig.client_end.ends == [RESET]
    late = End()
    rig.open(late)
    rig.run_for()
    assert late.ends == [REFUSED]


def test_the_peer_of_a_machine_without_power_hears_of_it_when_it_sends_to_the_machine_that_is_back() -> None:
    rig = Rig()
    client = rig.connect()
    server = rig.network.host("server")
    rig.loops["server"].kill()
    rig.network.power_off(server)
    late = End()
    rig.open(late)
    rig.run_for(100)
    assert rig.client_end.ends == []
    assert late.ends == []
    rig.network.power_on(server)
    rig.run_for()
    assert rig.client_end.ends == []
    assert late.ends == [REFUSED]
    client.send(b"anybody there?")
    rig.run_for()
    assert rig.client_end.ends == [RESET]


def test_bytes_sent_to_a_machine_without_power_are_answered_by_a_reset_when_it_is_back() -> None:
    rig = Rig()
    client = rig.connect()
    server = rig.network.host("server")
    rig.loops["server"].kill()
    rig.network.power_off(server)
    client.send(b"anybody there?")
    rig.run_for(100)
    assert rig.client_end.ends == []
    rig.network.power_on(server)
    rig.run_for()
    assert rig.client_end.ends == [RESET]


def test_a_slow_way_is_late_by_what_was_ordered() -> None:
    rig = Rig()
    client = rig.connect()
    rig.network.slow["client", "server"] = 5.0
    client.send(b"late")
    rig.server.send(b"soon")
    rig.run_for(4.9)
    assert (rig.server_end.data, rig.client_end.data) == (b"", b"soon")
    rig.run_for()
    assert rig.server_end.data == b"late"
