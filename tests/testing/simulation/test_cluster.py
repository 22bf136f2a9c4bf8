"""Brokers as processes on simulated machines: they serve, die, come back with what their disk kept, and do it again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.coordination import paths
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.storage.log_dirs import CLEAN_SHUTDOWN_FILE
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.process import ProcessState
from ottla.testing.simulation.requests import Fetched, create_topic, fetch, produce

MARKER = f"/data/{CLEAN_SHUTDOWN_FILE}"
FLUSHED = {"flush.messages": "1"}


class OneBroker:
    """A cluster of one broker with a topic."""

    def __init__(self, seed: int = 1, **configs: str) -> None:
        self.cluster = SimulatedCluster(seed, brokers=1)
        self.cluster.start()
        self.broker = self.cluster.brokers[1]
        self.client = self.cluster.client("client-1")
        outcome = create_topic(
            self.client, 1, "orders", configs={key.replace("_", "."): configs[key] for key in configs}
        )
        self.cluster.run_until(lambda: outcome.is_there, within_s=10)
        assert outcome.response.topics[0].error_code == ErrorCode.NONE

    def produce(self, *values: bytes, acks: int = -1) -> int:
        outcome = produce(self.client, 1, "orders", 0, values, acks=acks)
        self.cluster.run_until(lambda: outcome.is_there, within_s=60)
        assert outcome.error is None
        assert outcome.response.error_code == ErrorCode.NONE
        offset: int = outcome.response.base_offset
        return offset

    def read(self) -> list[bytes | None]:
        fetched: Fetched | None = None
        # The first request may find a connection that the broker knows nothing of any more, or no leader yet.
        while fetched is None or fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            outcome = fetch(self.client, 1, "orders", 0, 0)
            self.cluster.run_until(lambda outcome=outcome: outcome.is_there, within_s=60)  # type: ignore[misc]
            fetched = outcome.response
        assert fetched.error_code == ErrorCode.NONE
        return [value for _, value in fetched.records]

    def restart(self) -> None:
        self.broker.start()
        self.cluster.run_until(self.cluster.all_serve, within_s=60)


def test_a_client_produces_and_reads_over_the_simulated_network() -> None:
    one = OneBroker()
    assert [one.produce(b"a", b"b"), one.produce(b"c")] == [0, 2]
    assert one.read() == [b"a", b"b", b"c"]


def test_a_fetch_waits_for_what_is_produced_later() -> None:
    one = OneBroker()
    outcome = fetch(one.client, 1, "orders", 0, 0, max_wait_ms=20_000)
    one.cluster.run_for(5)
    assert not outcome.is_there
    produced = produce(one.cluster.client("client-2"), 1, "orders", 0, [b"news"])
    one.cluster.run_until(lambda: outcome.is_there, within_s=1)
    assert outcome.response.records == [(0, b"news")]
    one.cluster.run_until(lambda: produced.is_there, within_s=1)


def test_a_clean_stop_leaves_its_marker_and_a_kill_does_not() -> None:
    one = OneBroker()
    one.produce(b"a")
    one.broker.stop()
    one.cluster.run_until(lambda: not one.broker.is_up, within_s=20)
    assert one.broker.disk.exists(MARKER)
    one.restart()
    assert one.read() == [b"a"]
    one.broker.kill()
    assert one.broker.state is ProcessState.DOWN
    assert not one.broker.disk.exists(MARKER)


def test_a_killed_process_loses_nothing_that_it_wrote() -> None:
    one = OneBroker()
    one.produce(b"a")
    outcome = fetch(one.client, 1, "orders", 0, 1, max_wait_ms=20_000)
    one.cluster.run_for(1)
    one.broker.kill()
    one.cluster.run_until(lambda: outcome.is_there, within_s=1)
    assert outcome.error is not None
    one.restart()
    assert one.read() == [b"a"]


@pytest.mark.parametrize("seed", range(10))
def test_a_loss_of_power_keeps_what_was_fsynced(seed: int) -> None:
    one = OneBroker(seed, flush_messages="1")
    one.produce(b"a")
    one.produce(b"b")
    one.broker.power_off()
    one.cluster.run_for(3)
    one.restart()
    assert one.read()[:2] == [b"a", b"b"]


def test_a_boot_has_an_id_of_its_own_and_a_start_of_the_process_has_not() -> None:
    one = OneBroker()
    ids = []
    for end in (one.broker.kill, one.broker.power_off, one.broker.kill):
        assert one.broker.core is not None
        ids.append(one.broker.core._ports.boot_id)
        end()
        one.restart()
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("operations", range(0, 60, 6))
def test_the_power_may_go_at_any_operation_on_the_disk(operations: int) -> None:
    one = OneBroker(flush_messages="1")
    one.produce(b"a")
    one.broker.kill()
    one.broker.disk.crash_after(operations)
    one.broker.start()
    one.cluster.run_for(30)
    if one.broker.is_up:  # it needed fewer
        one.broker.power_off()
    one.restart()
    assert one.read() == [b"a"]


def test_a_broker_that_is_killed_while_it_stops() -> None:
    for after_s in (0.0001, 0.001, 0.002, 0.005, 0.01):
        one = OneBroker()
        one.produce(b"a")
        one.broker.stop()
        one.cluster.run_for(after_s)
        one.broker.kill()
        one.restart()
        assert one.read() == [b"a"]


def test_a_broker_that_is_killed_or_stopped_while_it_starts() -> None:
    for after_s in (0.0, 0.0005, 0.002, 0.004, 0.01):
        one = OneBroker()
        one.broker.kill()
        one.broker.start()
        one.cluster.run_for(after_s)
        one.broker.kill()
        one.broker.start()
        one.cluster.run_for(after_s)
        one.broker.stop()
        one.cluster.run_until(lambda one=one: not one.broker.is_up, within_s=20)  # type: ignore[misc]
        one.restart()


def test_a_paused_broker_answers_when_it_goes_on() -> None:
    one = OneBroker()
    one.broker.pause()
    outcome = produce(one.client, 1, "orders", 0, [b"late"])
    one.cluster.run_for(4)
    assert not outcome.is_there
    one.broker.resume()
    one.cluster.run_until(lambda: outcome.is_there, within_s=1)
    assert outcome.response.base_offset == 0


def test_a_broker_without_a_log_directory_ends_by_itself() -> None:
    one = OneBroker()
    exits: list[str] = []
    one.broker.on_exit = lambda broker: exits.append(broker.exit_reason)
    one.broker.disk.no_space_after(0)
    outcome = produce(one.client, 1, "orders", 0, [b"too much"])
    one.cluster.run_until(lambda: not one.broker.is_up, within_s=30)
    assert exits == ["no log directory is left"]
    one.cluster.run_until(lambda: outcome.is_there, within_s=30)
    assert outcome.error is not None or outcome.response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    one.broker.disk.heal()
    one.restart()
    assert one.read() == []


def test_a_cluster_that_is_stopped_starts_no_broker_that_ended_before() -> None:
    one = OneBroker()
    one.broker.disk.no_space_after(0)
    produce(one.client, 1, "orders", 0, [b"too much"])
    one.cluster.run_until(lambda: not one.broker.is_up, within_s=30)
    one.broker.disk.heal()
    one.restart()  # before the cluster does it
    one.cluster.stop()
    one.cluster.run_for(5)
    assert not one.broker.is_up


def test_the_session_of_a_killed_broker_lives_until_its_timeout() -> None:
    cluster = SimulatedCluster(1, brokers=2)
    cluster.start()

    def registered() -> list[int]:
        return [int(name) for name in cluster.ensemble.tree.children(paths.BROKER_IDS).children]

    cluster.brokers[2].kill()
    cluster.run_for(4)
    assert registered() == [1, 2]
    cluster.run_for(4)
    assert registered() == [1]
    cluster.brokers[1].pause()
    cluster.run_for(8)
    assert registered() == []


def test_a_partition_cuts_a_broker_off_from_the_store_and_from_clients() -> None:
    cluster = SimulatedCluster(1, brokers=2)
    cluster.start()
    client = cluster.client("client-1")
    cluster.isolate("broker-2")
    outcomes = {broker_id: client.request(broker_id, ApiVersionsRequest(), timeout_ms=3_000) for broker_id in (1, 2)}
    cluster.run_for(5)
    assert outcomes[1].response is not None
    assert outcomes[2].error is not None
    store = cluster.brokers[2].store
    assert store is not None
    session_id = store.session_id
    cluster.run_for(5)
    cluster.heal()
    cluster.run_for(5)
    assert store.session_id != session_id
    again = client.request(2, ApiVersionsRequest())
    cluster.run_until(lambda: again.is_there, within_s=30)
    assert again.response is not None


def test_a_session_expires_when_it_is_ordered() -> None:
    cluster = SimulatedCluster(1, brokers=1)
    cluster.start()
    store = cluster.brokers[1].store
    assert store is not None
    session_id = store.session_id
    cluster.expire_session(1)
    cluster.run_for(2)
    assert store.session_id != session_id


def run_with_faults(seed: int) -> str:
    """A run with some of everything; the digest of it."""
    cluster = SimulatedCluster(seed, brokers=3)
    cluster.start()
    client = cluster.client("client-1")
    for topic in ("orders", "payments", "returns"):
        create_topic(client, 1, topic, partitions=3, configs=FLUSHED)
    cluster.run_for(2)
    for number in range(30):
        produce(client, 1, "orders", number % 3, [b"%d" % number])
        fetch(client, 2, "payments", 0, 0, max_wait_ms=500)
        cluster.run_for(0.1)
        if number == 10:
            cluster.brokers[2].power_off()
        if number == 12:
            cluster.brokers[2].start()
            cluster.partition("client-1", "broker-1")
        if number == 20:
            cluster.heal()
            cluster.brokers[3].kill()
    cluster.run_for(20)
    cluster.stop()
    return cluster.digest


def test_the_same_seed_is_the_same_run_under_any_hash_seed() -> None:
    digests = []
    for hash_seed in ("1", "2"):
        code = "from tests.testing.simulation.test_cluster import run_with_faults; print(run_with_faults(5))"
        found = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parent.parent.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(found.stdout.strip())
    assert digests == [run_with_faults(5)] * 2
    assert run_with_faults(6) != digests[0]
