"""Control requests that come late, on a connection which the controller has given up long since."""

from ottla.controller.topic_faults import TopicFault
from ottla.core.types import TopicPartition
from ottla.testing.simulation.client import Outcome
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.process import SimulatedBroker
from ottla.testing.simulation.requests import create_topic

ORDERS = TopicPartition("orders", 0)


def controller_of(cluster: SimulatedCluster) -> SimulatedBroker:
    (found,) = [one for one in cluster.brokers.values() if one.core is not None and one.core.controller.is_active]
    return found


def create(cluster: SimulatedCluster) -> Outcome:
    """Ask for it; who asks may not be answered before all brokers are reached again."""
    return create_topic(cluster.client("client"), controller_of(cluster).broker_id, "orders", replication_factor=3)


def topic_id_on(broker: SimulatedBroker) -> bytes | None:
    assert broker.core is not None
    found = broker.core.replicas.partitions.get(ORDERS)
    return None if found is None else found.topic_id


def test_topic_outlives_a_late_request_about_an_older_topic_of_its_name() -> None:
    cluster = SimulatedCluster(1, brokers=3)
    cluster.start()
    controller = controller_of(cluster)
    broker = cluster.brokers[controller.broker_id % 3 + 1]
    connections = cluster.network.connections(controller.name, broker.name)
    stalled = [end.peer for end in connections if end.host.name == broker.name and end.peer is not None]
    for end in stalled:
        cluster.network.stall(end)
    create(cluster)
    cluster.run_until(lambda: topic_id_on(broker) is not None, within_s=60)  # over another connection, the second time
    older_id = topic_id_on(broker)

    deleted: list[TopicFault | None] = []
    assert controller.core is not None
    controller.core.topics.delete("orders", deleted.append)
    cluster.run_until(lambda: bool(deleted), within_s=60)
    assert topic_id_on(broker) is None
    create(cluster)
    cluster.run_until(lambda: topic_id_on(broker) is not None, within_s=60)
    newer_id = topic_id_on(broker)
    assert newer_id != older_id

    for end in stalled:
        cluster.network.stall(end, False)
    cluster.run_for(5)
    assert topic_id_on(broker) == newer_id
