"""Named faults of a cluster of three: what was acknowledged is there afterwards, and it heals by itself."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.coordination import paths
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.replication.partition import Partition
from ottla.testing.simulation.client import Outcome
from ottla.testing.simulation.cluster import SESSION_TIMEOUT_MS, SimulatedCluster
from ottla.testing.simulation.fault_plan import FaultSettings
from ottla.testing.simulation.process import SimulatedBroker
from ottla.testing.simulation.requests import Fetched, create_topic, fetch, produce
from ottla.testing.simulation.run import RunSettings, SimulatedRun
from ottla.testing.simulation.sightings import COORDINATOR_MOVED, LEADER_CHANGED
from ottla.testing.simulation.topic_leaders import NOT_KNOWN, TopicLeaders

ORDERS = TopicPartition("orders", 0)
WITHIN_S = 90
SESSION_S = SESSION_TIMEOUT_MS / 1000


class ThreeBrokers:
    """A partition on three brokers, of which two have to be in sync."""

    def __init__(self, seed: int = 1, **configs: str) -> None:
        self.cluster = SimulatedCluster(seed, brokers=3, properties={"log.flush.interval.messages": "1"})
        self.cluster.start()
        self.client = self.cluster.client("client-1")
        self.leaders = TopicLeaders(self.client, "orders", list(self.cluster.brokers))
        controller = next(broker for broker in self.cluster.brokers.values() if core_of(broker).controller.is_active)
        created = create_topic(
            self.client,
            controller.broker_id,
            "orders",
            replication_factor=3,
            configs={"min.insync.replicas": "2", **{key.replace("_", "."): value for key, value in configs.items()}},
        )
        self.until(lambda: created.is_there)
        assert created.response.topics[0].error_code == ErrorCode.NONE

    def until(self, condition: Callable[[], bool]) -> None:
        self.cluster.run_until(condition, within_s=WITHIN_S)

    @property
    def stored(self) -> paths.PartitionState:
        path = paths.partition_state_path(*ORDERS)
        return paths.decode_partition_state(path, self.cluster.ensemble.tree.get(path).value)

    @property
    def leader(self) -> SimulatedBroker:
        """By the store."""
        return self.cluster.brokers[self.stored.leader]

    @property
    def follower(self) -> SimulatedBroker:
        return next(broker for broker in self.cluster.brokers.values() if broker is not self.leader)

    def replica(self, broker: SimulatedBroker) -> Partition:
        return core_of(broker).replicas.partitions[ORDERS]

    def ask(self, send: Callable[[int], Outcome]) -> Any:
        """As a client does: of whoever leads, again until it succeeds."""
        for _ in range(WITHIN_S):
            self.leaders.refresh()
            self.cluster.run_for(1)
            leader = self.leaders.leader_of(0)
            if leader == NOT_KNOWN:
                continue
            outcome = send(leader)
            self.until(lambda outcome=outcome: outcome.is_there)  # type: ignore[misc]
            if outcome.response is not None and outcome.response.error_code == ErrorCode.NONE:
                return outcome.response
        raise AssertionError("no leader answers")

    def produce(self, value: bytes) -> int:
        produced = self.ask(lambda leader: produce(self.client, leader, *ORDERS, [value]))
        offset: int = produced.base_offset
        return offset

    def read(self) -> list[bytes | None]:
        fetched: Fetched = self.ask(lambda leader: fetch(self.client, leader, *ORDERS, 0))
        return [value for _, value in fetched.records]

    def start(self, broker: SimulatedBroker) -> None:
        broker.start()
        self.until(self.cluster.all_serve)

    def until_all_are_in_sync(self) -> None:
        self.until(lambda: len(self.stored.isr) == 3)


def core_of(broker: SimulatedBroker) -> Any:
    assert broker.core is not None
    return broker.core


@pytest.mark.parametrize("end", [SimulatedBroker.kill, SimulatedBroker.power_off, SimulatedBroker.stop])
def test_acknowledged_records_of_a_leader_that_ends_are_at_the_next_one(
    end: Callable[[SimulatedBroker], None],
) -> None:
    three = ThreeBrokers()
    assert three.produce(b"a") == 0
    first = three.leader
    end(first)
    assert three.produce(b"b") == 1
    assert three.leader is not first
    three.until(lambda: not first.is_up)
    three.start(first)
    three.until_all_are_in_sync()
    assert three.read() == [b"a", b"b"]


def test_follower_that_pauses_leaves_the_in_sync_replicas_and_comes_back() -> None:
    three = ThreeBrokers()
    three.produce(b"a")
    follower = three.follower
    follower.pause()
    three.until(lambda: follower.broker_id not in three.stored.isr)
    three.produce(b"b")
    assert three.replica(three.leader).high_watermark == 2
    follower.resume()
    three.until_all_are_in_sync()
    assert three.replica(follower).log.log_end_offset == 2


def test_leader_behind_a_partition_acknowledges_nothing_and_its_tail_is_cut() -> None:
    three = ThreeBrokers()
    three.produce(b"a")
    old = three.leader
    for other in ("store", *(broker.name for broker in three.cluster.brokers.values() if broker is not old)):
        three.cluster.partition(old.name, other)
    lost = produce(three.client, old.broker_id, *ORDERS, [b"lost"], timeout_ms=5_000)
    three.until(lambda: lost.is_there)
    assert lost.response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert three.replica(old).log.log_end_offset == 2
    three.until(lambda: three.leader is not old)
    three.produce(b"b")
    three.cluster.heal()
    three.until_all_are_in_sync()
    assert three.read() == [b"a", b"b"]
    assert three.replica(old).log.log_end_offset == 2


def test_leader_that_was_stopped_beyond_its_session_acknowledges_nothing_under_acks_all() -> None:
    three = ThreeBrokers()
    three.produce(b"a")
    old = three.leader
    late = produce(three.client, old.broker_id, *ORDERS, [b"warm"])
    three.until(lambda: late.is_there)
    old.pause()
    late = produce(three.client, old.broker_id, *ORDERS, [b"late"], timeout_ms=20_000)
    three.cluster.run_for(SESSION_S + 2)
    assert three.produce(b"b") == 2
    old.resume()
    three.until(lambda: late.is_there)
    assert late.error is not None or late.response.error_code != ErrorCode.NONE
    three.until_all_are_in_sync()
    assert three.read() == [b"a", b"warm", b"b"]
    assert three.replica(old).log.log_end_offset == 3


def test_store_that_is_gone_for_a_minute_stops_no_leader() -> None:
    three = ThreeBrokers()
    three.produce(b"a")
    before = three.stored
    three.cluster.ensemble.stop()
    for value in (b"b", b"c"):
        three.cluster.run_for(20)
        three.produce(value)
    follower = three.follower
    follower.kill()
    waits = produce(three.client, three.leader.broker_id, *ORDERS, [b"d"], timeout_ms=5_000)
    three.until(lambda: waits.is_there)
    assert waits.response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert three.stored == before
    three.cluster.ensemble.start()
    three.start(follower)
    three.until_all_are_in_sync()
    assert three.read()[:3] == [b"a", b"b", b"c"]


def test_session_that_expires_is_followed_by_another_registration_and_another_leader() -> None:
    three = ThreeBrokers()
    three.produce(b"a")
    old = three.leader
    epoch = core_of(old).registration.epoch
    three.cluster.expire_session(old.broker_id)
    three.until(lambda: core_of(old).registration.epoch > epoch)
    assert three.produce(b"b") == 1
    three.until_all_are_in_sync()
    assert three.read() == [b"a", b"b"]
    assert three.stored.leader_epoch > 0


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_partition_without_in_sync_replicas_waits_for_one_unless_elections_may_be_unclean(
    unclean: str, caplog: pytest.LogCaptureFixture
) -> None:
    three = ThreeBrokers(unclean_leader_election_enable=unclean, min_insync_replicas="1")
    last = three.leader
    others = [broker for broker in three.cluster.brokers.values() if broker is not last]
    for broker in others:
        broker.kill()
    three.until(lambda: three.stored.isr == (last.broker_id,))
    three.produce(b"a")
    last.kill()
    for broker in others:
        broker.start()
    three.cluster.run_for(SESSION_S + 20)
    if unclean == "true":
        assert three.leader in others
        assert "unclean election" in caplog.text
        assert three.read() == []
        return
    assert three.stored.leader == -1
    three.start(last)
    assert three.read() == [b"a"]
    assert three.leader is last


def test_groups_and_idempotent_producers_go_on_while_leaders_and_coordinators_move() -> None:
    faults = FaultSettings(interval_s=3, lasts_max_s=15, kinds=("kill", "pause"))
    results = [SimulatedRun(seed, RunSettings(duration_s=40, faults=faults)).run() for seed in range(1, 4)]
    assert all(result.acked and result.commits for result in results)
    for moved in (COORDINATOR_MOVED, LEADER_CHANGED):
        assert sum(result.sightings.get(moved, 0) for result in results) > 0
