"""Runs that found a bug, each by the name of the bug: a seed as it was, and what it came to where that is short."""

import pytest

from ottla.core.types import TopicPartition
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.profiles import PROFILES
from ottla.testing.simulation.requests import create_topic, delete_records, produce
from ottla.testing.simulation.run import SimulatedRun
from ottla.testing.simulation.stored_topics import stored_state

ORDERS = TopicPartition("orders", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "seed"),
    [
        pytest.param("log-starts", 194, id="follower-that-begins-within-a-batch-is-never-durable"),
        pytest.param("remade-topic", 195, id="leader-that-came-back-during-its-election-leads-in-the-old-epoch"),
    ],
)
def test_named_seed_keeps_the_rules(profile: str, seed: int) -> None:
    SimulatedRun(seed, PROFILES[profile]).run()


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_follower_that_begins_within_a_batch_joins_the_in_sync_replicas_without_another_append(seed: int) -> None:
    cluster = SimulatedCluster(seed, brokers=3, properties={"log.flush.interval.messages": "1"})
    cluster.start()
    client = cluster.client("client-1")
    for broker_id in cluster.brokers:
        created = create_topic(client, broker_id, "orders", replication_factor=3)
        cluster.run_until(lambda created=created: created.is_there, within_s=30)  # type: ignore[misc]
    cluster.run_for(1)
    state = stored_state(cluster, ORDERS)
    assert state is not None
    assert len(state.isr) == 3
    leader, follower = state.leader, state.isr[-1]
    produce(client, leader, "orders", 0, [b"a"])
    cluster.run_for(1)
    cluster.brokers[follower].kill()
    cluster.run_for(10)
    produce(client, leader, "orders", 0, [b"b", b"c", b"d"])
    cluster.run_for(1)
    deleted = delete_records(client, leader, ORDERS, 2)
    cluster.run_until(lambda: deleted.is_there, within_s=30)
    assert deleted.response is not None
    assert deleted.response.topics[0].partitions[0].error_code == 0
    cluster.brokers[follower].start()

    def is_in_sync() -> bool:
        state = stored_state(cluster, ORDERS)
        return state is not None and follower in state.isr

    cluster.run_until(is_in_sync, within_s=30)
    cluster.stop()
