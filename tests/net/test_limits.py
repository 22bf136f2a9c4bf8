"""A flood of connections per broker, per address and per second; idle expiry; memory in flight; open files."""

import os
import resource
import socket
import struct
import threading

import pytest

from ottla.net.connection_quota import OPEN_FILES, ConnectionQuota
from ottla.net.limits import DEFAULT_IN_FLIGHT_MAX_BYTES, NetworkLimits
from ottla.net.open_file_limit import raise_open_file_limit, share_descriptors

from .harness import Client, RunningServer, echo, frame

MEGABYTE = 1024 * 1024


def test_connections_over_the_brokers_limit_are_closed_and_the_others_served_on() -> None:
    with RunningServer(echo, NetworkLimits(max_connections=5)) as running:
        served = [running.connect() for _ in range(5)]
        for client in served:
            assert client.ask(b"hello") == b"hello"
        for _ in range(50):
            assert running.connect().is_closed_by_peer()
        for client in served:
            assert client.ask(b"still here") == b"still here"
        assert running.settled().metrics.refused == {"max.connections": 50}
        assert running.settled().metrics.connections == 5


def test_place_of_a_closed_connection_is_free_again() -> None:
    with RunningServer(echo, NetworkLimits(max_connections=1, max_connections_per_ip=1)) as running:
        for _ in range(3):
            client = running.connect()
            assert client.ask(b"in") == b"in"
            client.close()
            running.wait_until(lambda: running.server.metrics.connections == 0)


def test_limit_per_address_counts_each_address_alone_and_has_overrides() -> None:
    limits = NetworkLimits(max_connections_per_ip=2, max_connections_per_ip_overrides={"127.0.0.2": 1})
    with RunningServer(echo, limits) as running:

        def connect_from(address: str) -> Client:
            client = Client.__new__(Client)
            client.socket = socket.create_connection(
                ("127.0.0.1", running.port), timeout=10, source_address=(address, 0)
            )
            running._clients.append(client)
            return client

        for address, allowed in (("127.0.0.1", 2), ("127.0.0.2", 1)):
            for _ in range(allowed):
                assert connect_from(address).ask(b"in") == b"in"
            assert connect_from(address).is_closed_by_peer()
        assert running.settled().metrics.refused == {"max.connections.per.ip": 2}


def test_rate_lets_one_seconds_worth_in_then_waits() -> None:
    quota = ConnectionQuota(NetworkLimits(max_connection_creation_rate=10))
    assert [quota.wait_s(100.0) for _ in range(10)] == [0.0] * 10
    assert quota.wait_s(100.0) == pytest.approx(0.1)
    assert quota.wait_s(100.05) == pytest.approx(0.05)
    assert quota.wait_s(100.1001) == 0.0
    assert quota.wait_s(100.1001) > 0.0
    assert [quota.wait_s(1000.0) for _ in range(10)] == [0.0] * 10
    assert quota.wait_s(1000.0) > 0.0


def test_over_the_rate_connections_come_later_and_the_others_are_served_on() -> None:
    with RunningServer(echo, NetworkLimits(max_connection_creation_rate=20)) as running:
        clients = [running.connect() for _ in range(25)]
        assert clients[0].ask(b"served") == b"served"
        for client in clients:
            assert client.ask(b"served") == b"served"
        assert running.settled().metrics.refused["max.connection.creation.rate"] >= 1
        assert running.settled().metrics.accepted == 25


def test_idle_connection_is_closed_and_a_busy_one_kept() -> None:
    with RunningServer(echo, NetworkLimits(sweep_interval_ms=5, connections_max_idle_ms=100)) as running:
        idle, busy = running.connect(), running.connect()
        assert idle.ask(b"once") == b"once"
        while running.settled().metrics.connections == 2:
            assert busy.ask(b"again") == b"again"
        assert idle.is_closed_by_peer()
        assert busy.ask(b"still here") == b"still here"
        assert running.settled().metrics.closed == {"idle": 1}


def test_no_timer_runs_when_there_is_no_connection() -> None:
    with RunningServer(echo, NetworkLimits(sweep_interval_ms=1)) as running:
        assert running.server._expiry._timer is None
        client = running.connect()
        assert client.ask(b"here") == b"here"
        assert running.call(lambda: running.server._expiry._timer) is not None
        client.close()
        running.wait_until(lambda: running.server._expiry._timer is None)


def test_frame_waits_while_the_memory_is_taken_and_small_ones_pass() -> None:
    with RunningServer(echo, NetworkLimits(queued_max_request_bytes=MEGABYTE)) as running:
        first, second, small = running.connect(), running.connect(), running.connect()
        first.send(struct.pack(">i", 800_000) + bytes(400_000))
        running.wait_until(lambda: running.server._environment.budget.reserved_bytes == 800_000)
        # From a thread: the server reads nothing more of it once it waits, so the sender gets stuck.
        answers: list[bytes] = []
        asking = threading.Thread(target=lambda: answers.append(second.ask(b"s" * 800_000)))
        asking.start()
        running.wait_until(lambda: running.server._environment.budget.waiting_count == 1)
        assert small.ask(b"passes") == b"passes"
        assert running.settled().in_flight_bytes < MEGABYTE
        first.send(bytes(400_000))
        assert first.receive() == bytes(800_000)
        asking.join()
        assert answers == [b"s" * 800_000]
        assert running.settled().in_flight_bytes == 0


def test_frame_over_the_whole_budget_is_let_in_alone() -> None:
    with RunningServer(echo, NetworkLimits(queued_max_request_bytes=100_000)) as running:
        clients = [running.connect() for _ in range(4)]
        answers: dict[int, bytes] = {}

        def ask(index: int) -> None:
            answers[index] = clients[index].ask(bytes([index]) * 3_000_000)

        threads = [threading.Thread(target=ask, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == {index: bytes([index]) * 3_000_000 for index in range(4)}
        assert running.settled().in_flight_bytes == 0


def test_one_who_waits_for_memory_and_leaves_gives_up_its_place() -> None:
    with RunningServer(echo, NetworkLimits(queued_max_request_bytes=MEGABYTE)) as running:
        budget = running.server._environment.budget
        holder, leaver, stayer = running.connect(), running.connect(), running.connect()
        holder.send(struct.pack(">i", 900_000) + b"x")
        running.wait_until(lambda: budget.reserved_bytes == 900_000)
        leaver.send(struct.pack(">i", 900_000) + b"x")
        running.wait_until(lambda: budget.waiting_count == 1)
        stayer.send(struct.pack(">i", 100_000) + bytes(50_000))
        running.wait_until(lambda: budget.waiting_count == 2)  # behind the first in line, though it would fit
        leaver.close()
        running.wait_until(lambda: budget.waiting_count == 0)
        stayer.send(bytes(50_000))
        assert stayer.receive() == bytes(100_000)
        holder.close()
        running.wait_until(lambda: running.server.in_flight_bytes == 0)


def test_slow_holder_of_the_memory_is_cut_sooner_when_others_wait() -> None:
    limits = NetworkLimits(queued_max_request_bytes=MEGABYTE, sweep_interval_ms=5, frame_deadline_ms=600)
    with RunningServer(echo, limits) as running:
        holder, waiter = running.connect(), running.connect()
        holder.send(struct.pack(">i", 900_000) + b"x")
        running.wait_until(lambda: running.server.in_flight_bytes == 900_000)
        assert waiter.ask(bytes(500_000)) == bytes(500_000)
        assert running.settled().metrics.closed == {"frame deadline": 1}
        assert running.settled()._environment.tick < 100  # about 20 of them; the longer deadline is at 120


def test_running_out_of_descriptors_pauses_accepting_and_recovers() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with RunningServer(echo) as running:
        served, late = running.connect(), Client.__new__(Client)
        assert served.ask(b"here") == b"here"
        late.socket = socket.socket()
        late.socket.settimeout(10)
        fillers: list[int] = []
        highest = max(map(int, os.listdir("/dev/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        try:
            _use_up_descriptors(fillers)
            late.socket.connect(("127.0.0.1", running.port))
            running.wait_until(lambda: OPEN_FILES in running.server.metrics.refused)
            assert served.ask(b"still here") == b"still here"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for filler in fillers:
                os.close(filler)
        assert late.ask(b"let in at last") == b"let in at last"
        late.close()


def _use_up_descriptors(fillers: list[int]) -> None:
    while True:
        try:
            fillers.append(os.dup(0))
        except OSError:
            return


def test_open_file_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert raise_open_file_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("granted_max", "soft", "expected"), [(245_760, 256, 128 * 1024), (10_240, 256, 10_240), (256, 256, 256)]
)
def test_open_file_limit_is_raised_as_far_as_granted_where_the_hard_one_is_not(
    monkeypatch: pytest.MonkeyPatch, *, granted_max: int, soft: int, expected: int
) -> None:
    held = [(soft, resource.RLIM_INFINITY)]

    def setrlimit(which: int, limits: tuple[int, int]) -> None:
        if not 0 <= limits[0] <= granted_max:
            raise ValueError("current limit exceeds maximum limit")
        held.append(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda which: held[-1])
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    assert raise_open_file_limit() == expected
    assert held[-1] == (expected, resource.RLIM_INFINITY)


@pytest.mark.parametrize(
    ("limit", "connections", "cached_files"),
    [(64, 32, 16), (256, 160, 32), (1024, 768, 192), (4096, 3072, 960), (1_048_576, 1_048_576 - 2064, 2000)],
)
def test_files_get_what_they_need_of_the_descriptors_or_a_quarter(
    limit: int, connections: int, cached_files: int
) -> None:
    assert share_descriptors(limit, cached_files_max=2000) == (connections, cached_files)


def test_without_a_limit_of_open_files_nothing_is_divided() -> None:
    assert share_descriptors(resource.RLIM_INFINITY, cached_files_max=2000) is None


def test_connections_that_there_are_no_descriptors_for_are_closed_and_the_others_served_on() -> None:
    with RunningServer(echo, descriptors_max=3) as running:
        served = [running.connect() for _ in range(3)]
        for client in served:
            assert client.ask(b"hello") == b"hello"
        assert running.connect().is_closed_by_peer()
        running.call(lambda: running.server.update_connection_limits(NetworkLimits(max_connections=10)))
        assert running.connect().is_closed_by_peer(), "no key can raise it"
        assert [client.ask(b"still here") for client in served] == [b"still here"] * 3
        assert running.settled().metrics.refused == {OPEN_FILES: 2}


def test_connection_limits_can_change_while_running() -> None:
    with RunningServer(echo, NetworkLimits(max_connections=1)) as running:
        first = running.connect()
        assert first.ask(b"in") == b"in"
        assert running.connect().is_closed_by_peer()
        running.call(lambda: running.server.update_connection_limits(NetworkLimits(max_connections=2)))
        assert running.connect().ask(b"in too") == b"in too"
        running.call(lambda: running.server.update_connection_limits(NetworkLimits(max_connections_per_ip=1)))
        assert running.connect().is_closed_by_peer()
        assert first.ask(b"served on") == b"served on"


def test_memory_in_flight_is_bounded_by_default() -> None:
    assert NetworkLimits().in_flight_max_bytes == DEFAULT_IN_FLIGHT_MAX_BYTES
    assert NetworkLimits(queued_max_request_bytes=5).in_flight_max_bytes == 5


def test_frames_of_one_turn_do_not_outlive_it() -> None:
    with RunningServer(echo, NetworkLimits(sweep_interval_ms=5)) as running:
        client = running.connect()
        client.send(frame(bytes(2_000_000)))
        assert len(client.receive()) == 2_000_000
        assert running.settled().in_flight_bytes == 0
        running.wait_until(lambda: running.server.retained_bytes == 0)  # the sweep lets go of what nobody takes
