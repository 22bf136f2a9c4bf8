"""What a run has shown is counted from what the store was given and from what the brokers hold."""

from collections.abc import Sequence

from ottla.coordination import paths
from ottla.coordination.store import WatchEvent, WatchKind
from ottla.testing.simulation import sightings
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.process import SimulatedBroker
from ottla.testing.simulation.requests import create_topic, produce
from ottla.testing.simulation.sightings import Sightings, partition_of_state_path

PATH = paths.partition_state_path("orders", 3)


def state(leader: int, isr: Sequence[int], *, topic: str = "orders") -> tuple[WatchEvent, bytes]:
    path = paths.partition_state_path(topic, 3)
    value = paths.encode_partition_state(paths.PartitionState(leader, 1, tuple(isr), 1))
    return WatchEvent(WatchKind.CHANGED, path), value


def counts(*changes: tuple[WatchEvent, bytes], is_rebalancing: bool = False) -> dict[str, int]:
    seen = Sightings({}, lambda: is_rebalancing)
    for change in changes:
        seen.on_stored(*change)
    return seen.counts


def test_the_path_of_a_state_names_its_partition() -> None:
    assert partition_of_state_path(PATH) == ("orders", 3)
    assert partition_of_state_path("/brokers/topics/orders") is None
    assert partition_of_state_path("/a/b/c/d/e/f") is None


def test_changes_of_in_sync_replicas() -> None:
    assert counts(state(1, [1, 2]), state(1, [1]), state(1, [1, 2, 3])) == {
        sightings.ISR_SHRUNK: 1,
        sightings.ISR_GROWN: 1,
    }


def test_elections_clean_and_unclean() -> None:
    assert counts(state(1, [1, 2]), state(2, [1, 2])) == {sightings.LEADER_CHANGED: 1}
    assert counts(state(1, [1]), state(-1, [1]), state(2, [2])) == {
        sightings.LEADER_LOST: 1,
        sightings.UNCLEAN_ELECTION: 1,
        sightings.LEADER_CHANGED: 1,
    }
    assert counts(state(1, [1]), state(-1, [1]), state(1, [1])) == {sightings.LEADER_LOST: 1}


def test_an_unclean_election_is_told_at_once() -> None:
    seen, told = Sightings({}, lambda: False), []
    seen.on_unclean_election = told.append
    for change in (state(1, [1, 2]), state(2, [2]), state(3, [3])):
        seen.on_stored(*change)
    assert told == [("orders", 3)]


def test_a_coordinator_that_moves() -> None:
    changes = (state(1, [1, 2], topic="__consumer_offsets"), state(2, [1, 2], topic="__consumer_offsets"))
    assert sightings.COORDINATOR_MOVED in counts(*changes)
    assert sightings.COORDINATOR_MOVED_IN_REBALANCE not in counts(*changes)
    assert sightings.COORDINATOR_MOVED_IN_REBALANCE in counts(*changes, is_rebalancing=True)


def test_another_controller() -> None:
    changes = [
        (WatchEvent(WatchKind.CREATED, paths.CONTROLLER), paths.encode_controller(paths.ControllerNode(number, 5)))
        for number in (1, 1, 2)
    ]
    assert counts(*changes) == {sightings.CONTROLLER_CHANGED: 1}


def test_a_truncation_a_moved_log_start_and_a_lost_registration_of_live_brokers() -> None:
    cluster = SimulatedCluster(1, brokers=1)
    seen = Sightings(cluster.brokers, lambda: False)
    cluster.ensemble.on_change = seen.on_stored
    cluster.start()
    client, broker = cluster.client("client-1"), cluster.brokers[1]
    create_topic(client, 1, "orders")
    cluster.run_for(1)
    produce(client, 1, "orders", 0, [b"a"])
    cluster.run_for(1)
    produce(client, 1, "orders", 0, [b"b"])
    cluster.run_for(1)
    assert broker.core is not None
    (partition,) = broker.core.replicas.partitions.values()
    seen.look(broker, [partition])
    assert seen.counts == {}
    partition.log.truncate_to(1, now_ms=broker.loop.clock())
    seen.look(broker, [partition])
    assert seen.counts == {sightings.TRUNCATION: 1}
    partition.log.advance_log_start_offset(1)
    seen.look(broker, [partition])

    cluster.expire_session(1)
    assert seen.counts == {sightings.TRUNCATION: 1, sightings.LOG_START_MOVED: 1, sightings.REGISTRATION_LOST: 1}


def test_a_topic_deleted_with_a_dead_replica_and_a_crash_that_loses_records() -> None:
    cluster = SimulatedCluster(1, brokers=1)
    seen = Sightings(cluster.brokers, lambda: False)
    noted = WatchEvent(WatchKind.CREATED, paths.delete_topic_path("orders"))
    seen.on_stored(noted, b"")
    assert seen.counts == {sightings.TOPIC_DELETED_WITH_DEAD_REPLICA: 1}
    cluster.start()
    seen.on_stored(noted, b"")
    assert seen.counts == {sightings.TOPIC_DELETED_WITH_DEAD_REPLICA: 1}
    client, broker = cluster.client("client-1"), cluster.brokers[1]

    def look(broker: SimulatedBroker) -> None:
        assert broker.core is not None
        seen.look(broker, broker.core.replicas.partitions.values())

    create_topic(client, 1, "orders")
    cluster.run_for(120)  # its folder is durable
    produce(client, 1, "orders", 0, [b"a", b"b", b"c"])
    cluster.run_for(1)
    look(broker)
    broker.kill()
    broker.start()
    cluster.run_until(cluster.all_serve, within_s=60)
    look(broker)
    assert sightings.LOSSY_CRASH not in seen.counts
    while sightings.LOSSY_CRASH not in seen.counts:  # how much is lost is the seed's choice
        broker.power_off()
        broker.start()
        cluster.run_until(cluster.all_serve, within_s=60)
        look(broker)
        produce(client, 1, "orders", 0, [b"d"])
        cluster.run_for(1)
        look(broker)
        assert broker.boots < 30
