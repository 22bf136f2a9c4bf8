"""Writes of in-sync replicas that are on their way for long, while their topic is deleted and made again."""

from ottla.controller.new_topics import NewTopic
from ottla.controller.topic_faults import TopicFault
from ottla.coordination import paths
from ottla.core.cluster import TopicImage
from ottla.core.types import TopicPartition
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.process import SimulatedBroker
from ottla.testing.simulation.requests import produce
from ottla.testing.simulation.store_way import STORE

ORDERS = TopicPartition("orders", 0)
SLOW_S = 2.0


def create(cluster: SimulatedCluster, controller: SimulatedBroker, *replicas: SimulatedBroker) -> None:
    created: list[TopicImage | TopicFault] = []
    new = NewTopic("orders", assignment={0: tuple(replica.broker_id for replica in replicas)})
    assert controller.core is not None
    controller.core.topics.create(new, created.append)
    cluster.run_until(lambda: bool(created), within_s=60)
    assert not isinstance(created[0], TopicFault)


def test_write_for_a_deleted_topic_does_not_come_to_one_that_has_its_name() -> None:
    cluster = SimulatedCluster(1, brokers=3, session_timeout_ms=120_000)  # it outlives the slow way to the store
    cluster.start()
    brokers = list(cluster.brokers.values())
    (controller,) = [one for one in brokers if one.core is not None and one.core.controller.is_active]
    leader, follower = [one for one in brokers if one is not controller]
    create(cluster, controller, leader, follower, controller)
    cluster.run_for(3)

    # The follower lags, and the leader's write of that is slow.
    cluster.partition(leader.name, follower.name)
    produce(cluster.client("client"), leader.broker_id, "orders", 0, [b"one"], acks=1)
    cluster.run_for(1)
    cluster.network.slow[leader.name, STORE] = SLOW_S
    assert leader.core is not None
    leading = leader.core.replicas.partitions[ORDERS]._leading
    assert leading is not None
    cluster.run_until(lambda: leading._in_sync._is_asked, within_s=90)

    deleted: list[TopicFault | None] = []
    assert controller.core is not None
    controller.core.topics.delete("orders", deleted.append)
    cluster.run_until(lambda: bool(deleted), within_s=60)
    assert deleted == [None]
    topics = controller.core.topics
    cluster.run_until(lambda: "orders" not in topics.state.topics, within_s=60)
    create(cluster, controller, follower, controller, leader)
    cluster.run_for(2 * SLOW_S)
    path = paths.partition_state_path(*ORDERS)
    state = paths.decode_partition_state(path, cluster.ensemble.tree.get(path).value)
    assert (state.leader, state.leader_epoch) == (follower.broker_id, 0)
