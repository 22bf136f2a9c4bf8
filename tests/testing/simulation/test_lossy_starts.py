"""Brokers that come back without all that they had: they lead nothing before they have it again (FAULTS 75, 80)."""

import logging

import pytest

from ottla.coordination import paths
from ottla.coordination.store import WatchEvent, WatchKind
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.testing.simulated_disk import SimulatedDisk
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.fault_plan import FaultSettings
from ottla.testing.simulation.requests import create_topic, fetch, produce
from ottla.testing.simulation.run import RunSettings, SimulatedRun
from ottla.testing.simulation.sightings import ELIGIBLE_ELECTION, LOSSY_ELECTION, LOSSY_START

ORDERS = TopicPartition("orders", 0)
STATE_PATH = paths.partition_state_path(*ORDERS)
ELIGIBLE_PATH = paths.eligible_path(*ORDERS)
SESSION_ENDS_S = 30
OFF = FaultSettings(interval_s=3, down_max=3, kinds=("power-off", "power-off-in-write", "kill", "stop"))


class Cluster:
    """Three brokers with one partition of `replicas` replicas, of which two have to be in sync; nothing is fsynced."""

    def __init__(self, seed: int = 1, *, replicas: int = 3) -> None:
        self.simulated = simulated = SimulatedCluster(seed, brokers=3, properties={"min.insync.replicas": "2"})
        simulated.start()
        self.brokers = simulated.brokers
        self.client = simulated.client("client")
        for broker_id in self.brokers:
            created = create_topic(
                self.client,
                broker_id,
                "orders",
                replication_factor=replicas,
                configs={"min.insync.replicas": str(min(2, replicas))},
            )
            simulated.run_until(lambda created=created: created.is_there, within_s=10)  # type: ignore[misc]
        self.await_isr(replicas)

    @property
    def state(self) -> paths.PartitionState:
        return paths.decode_partition_state(STATE_PATH, self.simulated.ensemble.tree.get(STATE_PATH).value)

    @property
    def eligible(self) -> paths.EligibleReplicas:
        found = self.simulated.ensemble.tree.get(ELIGIBLE_PATH)
        return paths.decode_eligible(ELIGIBLE_PATH, found.value) if found.is_ok else paths.EligibleReplicas(())

    def await_isr(self, count: int) -> None:
        self.simulated.run_until(lambda: self.state.leader >= 0 and len(self.state.isr) == count, within_s=120)

    def await_leader(self) -> None:
        self.simulated.run_until(
            lambda: self.state.leader >= 0 and self.brokers[self.state.leader].is_serving, within_s=120
        )

    def produce(self, *values: bytes) -> None:
        while True:
            outcome = produce(self.client, self.state.leader, "orders", 0, values)
            self.simulated.run_until(lambda outcome=outcome: outcome.is_there, within_s=60)  # type: ignore[misc]
            if outcome.response is not None and outcome.response.error_code == ErrorCode.NONE:
                return

    def read(self) -> list[bytes | None]:
        """All that the leader has, when it has heard from its followers that it is committed."""
        self.simulated.run_until(self._is_all_committed, within_s=60)
        while True:
            outcome = fetch(self.client, self.state.leader, "orders", 0, 0)
            self.simulated.run_until(lambda outcome=outcome: outcome.is_there, within_s=60)  # type: ignore[misc]
            if outcome.response is not None and outcome.response.error_code == ErrorCode.NONE:
                return [value for _, value in outcome.response.records]

    def _is_all_committed(self) -> bool:
        leader = self.brokers.get(self.state.leader)
        if leader is None or not leader.is_serving:
            return False
        assert leader.core is not None
        partition = leader.core.replicas.partitions.get(ORDERS)
        return partition is not None and partition.high_watermark == partition.log.log_end_offset

    def states_at_registrations(self, broker_id: int) -> list[paths.PartitionState]:
        """What the store says whenever this broker registers, from now on."""
        seen: list[paths.PartitionState] = []

        def on_change(change: WatchEvent, _: bytes) -> None:
            if change.path == paths.broker_path(broker_id) and change.kind == WatchKind.CREATED:
                seen.append(self.state)

        self.simulated.ensemble.on_change = on_change
        return seen


@pytest.mark.parametrize("pause_s", [0, SESSION_ENDS_S])
@pytest.mark.parametrize("broker_id", [1, 2])
def test_a_wiped_data_dir_rejoins_as_lossy_and_copies_all_before_it_is_in_sync(broker_id: int, pause_s: int) -> None:
    cluster = Cluster()
    cluster.produce(b"a", b"b")
    broker = cluster.brokers[broker_id]
    broker.kill()
    broker.disk = SimulatedDisk(99)
    cluster.simulated.run_for(pause_s)
    seen = cluster.states_at_registrations(broker_id)
    broker.start()
    cluster.simulated.run_until(lambda: bool(seen), within_s=60)
    assert broker_id not in (seen[0].leader, *seen[0].isr)
    cluster.await_isr(3)
    assert broker.core is not None
    assert broker.core.replicas.partitions[ORDERS].log.log_end_offset == 2
    assert cluster.read() == [b"a", b"b"]


def test_a_lossy_replica_leaves_the_isr_before_it_registers_and_comes_back() -> None:
    cluster = Cluster()
    cluster.produce(b"a")
    leader = cluster.brokers[cluster.state.leader]
    leader.power_off()
    seen = cluster.states_at_registrations(leader.broker_id)
    leader.start()
    cluster.simulated.run_until(lambda: bool(seen), within_s=60)
    assert leader.broker_id not in (seen[0].leader, *seen[0].isr)
    cluster.await_isr(3)
    assert cluster.read() == [b"a"]


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_killed_process_and_a_machine_off_after_a_clean_stop_are_not_lossy(is_clean: bool) -> None:
    cluster = Cluster()
    cluster.produce(b"a")
    for broker in cluster.brokers.values():
        if is_clean:
            broker.stop()
            cluster.simulated.run_until(lambda broker=broker: not broker.is_up, within_s=60)  # type: ignore[misc]
            broker.power_off()
        else:
            broker.kill()
    for broker in cluster.brokers.values():
        broker.start()
    cluster.await_isr(3)
    assert cluster.eligible.lossy == ()
    assert cluster.read() == [b"a"]


def test_the_marker_of_an_older_life_does_not_make_a_start_clean() -> None:
    cluster = Cluster()
    broker = cluster.brokers[2]
    marker = "/data/.kafka_cleanshutdown"
    broker.stop()
    cluster.simulated.run_until(lambda: not broker.is_up, within_s=60)
    old_marker = broker.disk.read(marker)
    broker.start()
    cluster.await_isr(3)
    broker.power_off()
    broker.disk.write_atomically(marker, old_marker)
    seen = cluster.states_at_registrations(2)
    broker.start()
    cluster.simulated.run_until(lambda: bool(seen), within_s=60)
    assert 2 not in seen[0].isr
    cluster.await_isr(3)


@pytest.mark.parametrize("seed", range(4))
def test_when_all_are_lossy_the_one_with_the_most_leads(seed: int) -> None:
    cluster = Cluster(seed)
    for number in range(20):
        cluster.produce(b"%d" % number)
    for broker in cluster.brokers.values():
        broker.power_off()
    ends: dict[int, int] = {}

    def on_change(change: WatchEvent, value: bytes) -> None:
        if change.path == ELIGIBLE_PATH:
            ends.update((one.broker_id, one.log_end_offset) for one in paths.decode_eligible("", value).lossy)

    cluster.simulated.ensemble.on_change = on_change
    first, second, last = cluster.brokers.values()
    first.start()
    second.start()
    cluster.simulated.run_for(60)
    assert cluster.state.leader not in (1, 2), "the third one may have everything"
    last.start()
    cluster.await_isr(3)
    assert cluster.read() == [b"%d" % number for number in range(max(ends.values()))]
    assert len(ends) == 3


def test_an_eligible_replica_leads_when_the_last_in_sync_one_is_lossy() -> None:
    cluster = Cluster()
    cluster.produce(b"a")
    cluster.brokers[3].kill()
    cluster.await_isr(2)
    cluster.brokers[2].kill()
    cluster.await_isr(1)
    assert cluster.state.isr == (1,)
    assert cluster.eligible.eligible == (2,)
    cluster.brokers[1].power_off()
    cluster.simulated.run_for(SESSION_ENDS_S)
    cluster.brokers[2].start()
    cluster.await_leader()
    assert cluster.state.leader == 2
    cluster.brokers[1].start()
    cluster.await_isr(2)
    assert cluster.eligible.eligible == ()
    assert cluster.read() == [b"a"]
    cluster.brokers[3].start()
    cluster.await_isr(3)


def test_a_sole_replica_leads_with_its_loss_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(replicas=1)
    cluster.produce(b"a")
    broker = cluster.brokers[cluster.state.leader]
    broker.power_off()
    with caplog.at_level(logging.WARNING, "ottla.broker"):
        broker.start()
        cluster.simulated.run_for(SESSION_ENDS_S)
    assert "orders-0: lossy start" in caplog.text
    assert "it is the only replica and leads on" in caplog.text
    cluster.await_leader()
    cluster.produce(b"b")
    assert cluster.read()[-1] == b"b"


def test_min_insync_replicas_that_is_lowered_ends_eligibility_before_more_is_committed() -> None:
    cluster = Cluster()
    cluster.produce(b"a")
    cluster.brokers[3].kill()
    cluster.await_isr(2)
    cluster.brokers[2].kill()
    cluster.await_isr(1)
    leader = cluster.brokers[1].core
    assert leader is not None
    leader.log_manager.update_config("orders", leader.log_manager.logs()[0].config._replace(min_insync_replicas=1))
    produced = produce(cluster.client, 1, "orders", 0, [b"b"])
    cluster.simulated.run_until(lambda: produced.is_there, within_s=60)
    assert cluster.eligible.eligible == ()
    assert cluster.read() == [b"a", b"b"]


@pytest.mark.parametrize("flush_messages", [0, 1])
@pytest.mark.parametrize("seed", [101, 102])
def test_what_is_acknowledged_survives_the_loss_of_power_of_any_and_all_brokers(seed: int, flush_messages: int) -> None:
    """Without fsync only what all copies lost: then the least lossy one was elected, and the run says so."""
    run = SimulatedRun(seed, RunSettings(duration_s=30, flush_messages=flush_messages, faults=OFF))
    sightings = run.run().sightings
    assert sightings[LOSSY_START] > 0
    assert bool(run.history.lossy) == (not flush_messages and LOSSY_ELECTION in sightings)
    assert set(sightings) & {ELIGIBLE_ELECTION, LOSSY_ELECTION} or not run.history.lossy


def test_a_deleted_topic_leaves_no_eligible_replicas_to_another_one_of_its_name() -> None:
    cluster = Cluster()
    for broker_id in (3, 2):
        cluster.brokers[broker_id].kill()
        cluster.await_isr(broker_id - 1)
    assert cluster.eligible.eligible == (2,)
    for broker_id in (2, 3):
        cluster.brokers[broker_id].start()
    cluster.await_isr(3)
    tree = cluster.simulated.ensemble.tree
    assert tree.get(ELIGIBLE_PATH).is_ok
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=10_000)
    for broker_id in cluster.brokers:  # one of them is the controller
        cluster.client.request(broker_id, request, lambda _: None, timeout_ms=15_000)
    cluster.simulated.run_for(20)
    assert not tree.get(STATE_PATH).is_ok
    assert not tree.get(ELIGIBLE_PATH).is_ok
