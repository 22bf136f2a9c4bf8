"""Controllers of several brokers on one store: who controls, and what becomes of who comes and goes."""

import pytest

from ottla.controller.added_partitions import NewPartitions
from ottla.controller.new_topics import NewTopic
from ottla.controller.partition_decisions import Strategy
from ottla.controller.topic_faults import TopicFault
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, SetValue
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.control import ControlledShutdown, ControlledShutdownAnswer, LeaderAndIsr, UpdateMetadata
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from tests.controller.answering_cluster import Cluster

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(3)
    cluster.settle(1)
    return cluster


def create(cluster: Cluster, name: str = "orders", assignment: dict[int, tuple[int, ...]] | None = None) -> object:
    """By a request to the controller."""
    outcomes: list[object] = []
    cluster.controller.topics.create(NewTopic(name, assignment=assignment or {0: (1, 2, 3)}), outcomes.append)
    cluster.loop.run_until(lambda: bool(outcomes))
    return outcomes[0]


def test_one_broker_controls_and_all_hear_of_all_brokers(cluster: Cluster) -> None:
    assert len(cluster.active) == 1
    for broker in cluster.brokers.values():
        assert [info.broker_id for info in broker.brokers] == [1, 2, 3]


def test_first_that_a_broker_hears_of_a_controller_is_the_full_picture(cluster: Cluster) -> None:
    create(cluster)
    cluster.kill(cluster.active[0])
    cluster.settle(1)
    (active,) = cluster.active
    first, second = [request for request in cluster.brokers[active].requests if request.stamp.controller_epoch == 2][:2]
    assert isinstance(first, LeaderAndIsr)
    assert first.is_full
    assert isinstance(second, UpdateMetadata)
    assert second.is_full


def test_topic_is_answered_when_leader_and_controller_know_it(cluster: Cluster) -> None:
    image = create(cluster)
    assert not isinstance(image, TopicFault)
    assert ORDERS in cluster.brokers[1].new
    assert "orders" in cluster.brokers[cluster.active[0]].shown
    cluster.settle(1)
    for broker in cluster.brokers.values():
        assert broker.states[ORDERS] == cluster.state_of("orders")
        assert broker.shown["orders"].partitions[0] == cluster.state_of("orders")


def test_partition_of_a_dead_leader_is_led_by_the_next_in_sync_replica(cluster: Cluster) -> None:
    create(cluster)
    cluster.kill(1)
    cluster.settle(1)
    state = cluster.state_of("orders")
    assert (state.leader, state.leader_epoch, state.isr) == (2, 1, (2, 3))
    for broker_id in (2, 3):
        assert cluster.brokers[broker_id].states[ORDERS] == state
        assert cluster.brokers[broker_id].shown["orders"].partitions[0] == state
        assert [info.broker_id for info in cluster.brokers[broker_id].brokers] == [2, 3]


def test_dead_follower_leaves_the_in_sync_replicas_within_the_leaders_epoch(cluster: Cluster) -> None:
    create(cluster)
    cluster.kill(3)
    cluster.settle(1)
    state = cluster.state_of("orders")
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1, 2))
    assert cluster.brokers[1].states[ORDERS] == state


def test_partition_waits_for_an_in_sync_replica_and_is_led_when_it_comes(cluster: Cluster) -> None:
    create(cluster, assignment={0: (1, 2)})
    cluster.write_isr("orders", 0, (1,))
    cluster.settle(1)
    cluster.kill(1)
    cluster.settle(1)
    state = cluster.state_of("orders")
    assert (state.leader, state.isr) == (-1, (1,))
    cluster.start(1)
    cluster.settle(1)
    state = cluster.state_of("orders")
    assert (state.leader, state.leader_epoch, state.isr) == (1, 2, (1,))
    assert cluster.brokers[1].states[ORDERS] == state


def test_unclean_election_takes_what_is_there_when_it_is_asked_for(cluster: Cluster) -> None:
    create(cluster, assignment={0: (1, 2)})
    cluster.write_isr("orders", 0, (1,))
    cluster.settle(1)
    cluster.kill(1)
    cluster.settle(1)
    outcomes: list[object] = []
    cluster.controller.elect_leaders(Strategy.UNCLEAN, [ORDERS], outcomes.append)
    cluster.settle(1)
    assert outcomes == [{ORDERS: None}]
    state = cluster.state_of("orders")
    assert (state.leader, state.isr) == (2, (2,))


def test_unclean_election_takes_what_is_there_when_the_topic_allows_it(cluster: Cluster) -> None:
    create(cluster, assignment={0: (1, 2)})
    cluster.write_isr("orders", 0, (1,))
    cluster.settle(1)
    cluster.kill(1)
    cluster.settle(1)
    assert cluster.state_of("orders").leader == -1
    cluster.controller.topic_config_changed("orders", {"unclean.leader.election.enable": "true"})
    cluster.settle(1)
    assert cluster.state_of("orders")[:3] == (2, 2, (2,))


def test_broker_that_registered_anew_was_dead_in_between(cluster: Cluster) -> None:
    (other,) = cluster.active
    bounced = 2 if other != 2 else 3
    cluster.write_topic("orders", {0: (bounced, other), 1: (bounced,), 2: (other, bounced)})
    cluster.settle(1)
    cluster.bounce(bounced)
    cluster.settle(2)
    assert cluster.state_of("orders", 0)[:3] == (other, 1, (other,))
    assert cluster.state_of("orders", 1)[:3] == (bounced, 2, (bounced,))
    assert cluster.state_of("orders", 2)[:3] == (other, 0, (other,))
    for partition in range(3):
        found = TopicPartition("orders", partition)
        assert cluster.brokers[bounced].states[found] == cluster.state_of("orders", partition)


def test_next_controller_elects_for_what_died_with_the_last_one(cluster: Cluster) -> None:
    create(cluster)
    active = cluster.active[0]
    cluster.kill(active)
    cluster.kill(1 if active != 1 else 2)
    cluster.settle(1)
    (left,) = cluster.active
    assert cluster.state_of("orders").leader == left
    assert cluster.controller.epoch >= 2


def test_controller_whose_session_expired_resigns_and_writes_nothing(cluster: Cluster) -> None:
    (old,) = cluster.active
    stale = cluster.controllers[old]
    cluster.ensemble.stall(f"broker-{old}")
    cluster.settle(7)  # its session is over, and it does not know
    assert sorted(cluster.active) != [old]
    assert len(cluster.active) == 2 or not stale.is_active
    outcomes: list[object] = []
    stale.topics.create(NewTopic("ghost", assignment={0: (1,)}), outcomes.append)
    cluster.ensemble.restore(f"broker-{old}")
    cluster.settle(5)
    assert len(cluster.active) == 1
    assert cluster.topics() == ()
    (outcome,) = outcomes
    assert isinstance(outcome, TopicFault)
    assert outcome.error_code == ErrorCode.NOT_CONTROLLER


def test_deposed_controller_is_fenced_by_the_epoch_alone(cluster: Cluster) -> None:
    cluster.call(cluster.admin.multi, [SetValue(paths.CONTROLLER_EPOCH, b"7", ANY_VERSION)])
    outcomes: list[object] = []
    cluster.controller.topics.create(NewTopic("ghost", assignment={0: (1,)}), outcomes.append)
    cluster.settle(5)
    (outcome,) = outcomes
    assert isinstance(outcome, TopicFault)
    assert outcome.error_code == ErrorCode.NOT_CONTROLLER
    assert cluster.topics() == ()
    assert cluster.controller.epoch == 8


def test_topic_that_another_broker_wrote_gets_leaders(cluster: Cluster) -> None:
    cluster.write_topic("orders", {0: (1, 2), 1: (2, 3)})
    cluster.settle(1)
    assert cluster.state_of("orders", 0) == PartitionState(1, 0, (1, 2), (1, 2))
    assert cluster.state_of("orders", 1) == PartitionState(2, 0, (2, 3), (2, 3))
    assert cluster.brokers[2].new == [ORDERS, TopicPartition("orders", 1)]
    assert set(cluster.brokers[3].shown["orders"].partitions) == {0, 1}


def test_topic_that_was_written_while_nobody_controlled_gets_leaders(cluster: Cluster) -> None:
    for broker_id in (1, 2, 3):
        cluster.kill(broker_id)
    cluster.write_topic("orders", {0: (1, 2)})
    for broker_id in (1, 2, 3):
        cluster.start(broker_id)
    cluster.settle(2)
    assert cluster.state_of("orders").leader in (1, 2)


def test_partition_that_another_broker_wrote_gets_a_leader(cluster: Cluster) -> None:
    create(cluster)
    node = cluster.get(paths.topic_path("orders"))
    assigned = paths.decode_topic("", node.value)
    grown = assigned._replace(partitions={**assigned.partitions, 1: (3, 1)})
    cluster.call(cluster.admin.set, node.path, paths.encode_topic(grown), version=ANY_VERSION)
    cluster.settle(1)
    assert cluster.state_of("orders", 1) == PartitionState(3, 0, (3, 1), (3, 1))
    assert TopicPartition("orders", 1) in cluster.brokers[1].new


def test_clients_learn_of_in_sync_replicas_that_a_leader_wrote(cluster: Cluster) -> None:
    create(cluster)
    cluster.write_isr("orders", 0, (1, 3))
    cluster.settle(1)
    for broker in cluster.brokers.values():
        assert broker.shown["orders"].partitions[0].isr == (1, 3)
    assert cluster.call(cluster.admin.children, paths.ISR_CHANGE_NOTIFICATION).children == ()


def test_election_that_a_leader_has_overtaken_is_decided_anew(cluster: Cluster) -> None:
    create(cluster)
    state = cluster.state_of("orders")
    node = paths.PartitionState(state.leader, state.leader_epoch, (1, 3), 1)  # and no notification
    path = paths.partition_state_path("orders", 0)
    cluster.call(cluster.admin.set, path, paths.encode_partition_state(node), version=state.version)
    cluster.kill(1)
    cluster.settle(1)
    state = cluster.state_of("orders")
    assert (state.leader, state.isr, state.version) == (3, (3,), 2)


def test_election_whose_answer_was_lost_is_sent_all_the_same(cluster: Cluster) -> None:
    create(cluster)
    victim = next(broker_id for broker_id in (1, 2, 3) if broker_id != cluster.active[0])
    cluster.ensemble.lose_answers(1, client=f"broker-{cluster.active[0]}")
    cluster.kill(victim)
    cluster.settle(3)
    state = cluster.state_of("orders")
    assert victim not in state.isr
    for broker_id in state.isr:
        assert cluster.brokers[broker_id].states[ORDERS] == state


def test_deleted_topic_is_gone_from_brokers_and_store(cluster: Cluster) -> None:
    create(cluster)
    outcomes: list[object] = []
    cluster.controller.topics.delete("orders", outcomes.append)
    cluster.settle(1)
    assert outcomes == [None]
    assert cluster.topics() == ()
    for broker in cluster.brokers.values():
        assert not broker.logs
        assert not broker.shown


def test_deletion_with_a_dead_replica_is_finished_when_it_comes_back(cluster: Cluster) -> None:
    create(cluster)
    cluster.kill(3)
    cluster.settle(1)
    outcomes: list[object] = []
    cluster.controller.topics.delete("orders", outcomes.append)
    cluster.settle(1)
    assert outcomes == [None]  # clients need not wait for a dead broker
    assert not cluster.brokers[1].logs
    assert cluster.topics() == ("orders",)
    assert "orders" not in cluster.brokers[1].shown
    fault = create(cluster)
    assert isinstance(fault, TopicFault)
    cluster.start(3)
    cluster.settle(2)
    assert cluster.topics() == ()
    assert not cluster.brokers[3].logs
    assert not isinstance(create(cluster), TopicFault)


def test_next_controller_goes_on_with_a_deletion(cluster: Cluster) -> None:
    create(cluster, assignment={0: (1, 2, 3)})
    (active,) = cluster.active
    dead = 3 if active != 3 else 2
    cluster.kill(dead)
    cluster.settle(1)
    cluster.controller.topics.delete("orders", lambda _: None)
    cluster.settle(1)
    cluster.kill(active)
    cluster.settle(1)
    assert cluster.topics() == ("orders",)
    cluster.start(dead)
    cluster.start(active)
    cluster.settle(2)
    assert cluster.topics() == ()
    assert not any(broker.logs for broker in cluster.brokers.values())


def test_note_of_somebody_else_deletes_a_topic(cluster: Cluster) -> None:
    create(cluster)
    cluster.call(cluster.admin.create, paths.delete_topic_path("orders"), b"")
    cluster.call(cluster.admin.create, paths.delete_topic_path("unknown"), b"")
    cluster.settle(1)
    assert cluster.topics() == ()
    assert cluster.call(cluster.admin.children, paths.DELETE_TOPICS).children == ()


def test_note_of_somebody_else_goes_where_topics_can_not_be_deleted() -> None:
    cluster = Cluster(3, {"delete.topic.enable": "false"})
    cluster.settle(1)
    create(cluster)
    cluster.call(cluster.admin.create, paths.delete_topic_path("orders"), b"")
    cluster.settle(1)
    assert cluster.topics() == ("orders",)
    assert cluster.call(cluster.admin.children, paths.DELETE_TOPICS).children == ()


def test_broker_that_shuts_down_leads_nothing_and_leaves_the_in_sync_replicas(cluster: Cluster) -> None:
    cluster.write_topic("orders", {0: (1, 2, 3), 1: (2, 1), 2: (1,)})
    cluster.settle(1)
    answers: list[ControlledShutdownAnswer] = []
    request = ControlledShutdown(1, cluster.brokers[1].epoch)
    cluster.controller.controlled_shutdown(request, answers.append)
    cluster.settle(1)
    assert answers == [ControlledShutdownAnswer()]
    assert cluster.state_of("orders", 0)[:3] == (2, 1, (2, 3))
    assert cluster.state_of("orders", 1)[:3] == (2, 0, (2,))
    assert cluster.state_of("orders", 2).leader == 1  # nobody else can
    stale = ControlledShutdown(1, cluster.brokers[1].epoch - 1)
    cluster.controller.controlled_shutdown(stale, answers.append)
    assert answers[1].error_code == ErrorCode.STALE_BROKER_EPOCH


def test_leadership_goes_back_to_the_preferred_replica_on_request(cluster: Cluster) -> None:
    create(cluster)
    cluster.kill(1)
    cluster.settle(1)
    cluster.start(1)
    cluster.settle(1)
    outcomes: list[object] = []
    cluster.controller.elect_leaders(Strategy.PREFERRED, [ORDERS], outcomes.append)
    cluster.settle(1)
    (outcome,) = outcomes
    assert isinstance(outcome, dict)
    assert outcome[ORDERS].error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE  # not in sync yet
    cluster.write_isr("orders", 0, (2, 3, 1))
    cluster.settle(1)
    cluster.controller.elect_leaders(Strategy.PREFERRED, None, outcomes.append)
    cluster.settle(1)
    assert outcomes[1] == {ORDERS: None}
    assert cluster.state_of("orders")[:2] == (1, 2)


def test_leadership_goes_back_by_the_node_of_the_tools(cluster: Cluster) -> None:
    create(cluster)
    cluster.kill(1)
    cluster.settle(1)
    cluster.start(1)
    cluster.settle(1)
    cluster.write_isr("orders", 0, (2, 3, 1))
    cluster.call(cluster.admin.create, paths.PREFERRED_REPLICA_ELECTION, paths.encode_partition_set([ORDERS]))
    cluster.settle(1)
    assert cluster.state_of("orders").leader == 1
    assert not cluster.get(paths.PREFERRED_REPLICA_ELECTION).is_ok


def test_leadership_goes_back_by_itself_after_a_while(cluster: Cluster) -> None:
    create(cluster)
    cluster.kill(1)
    cluster.settle(1)
    cluster.start(1)
    cluster.settle(1)
    cluster.write_isr("orders", 0, (2, 3, 1))
    cluster.settle(601)
    assert cluster.state_of("orders").leader == 1


def test_partition_of_a_failed_log_directory_is_led_elsewhere(cluster: Cluster) -> None:
    create(cluster, assignment={0: (1, 2, 3), 1: (1, 2, 3)})
    cluster.brokers[1].offline.add(ORDERS)
    cluster.call(cluster.admin.create, paths.LOG_DIR_EVENT_PREFIX, paths.encode_log_dir_event(1), sequential=True)
    cluster.settle(1)
    assert cluster.state_of("orders", 0)[:3] == (2, 1, (2, 3))
    assert cluster.state_of("orders", 1).leader == 1
    assert cluster.call(cluster.admin.children, paths.LOG_DIR_EVENT_NOTIFICATION).children == ()


def test_broker_that_does_not_answer_is_sent_all_of_it_later(cluster: Cluster) -> None:
    victim = next(broker_id for broker_id in (1, 2, 3) if broker_id != cluster.active[0])
    cluster.brokers[victim].is_alive = False  # its session lives, its network does not
    create(cluster, assignment={0: (cluster.active[0], victim)})
    cluster.settle(2)
    assert "orders" not in cluster.brokers[victim].shown
    cluster.brokers[victim].is_alive = True
    cluster.settle(2)
    assert cluster.brokers[victim].states[ORDERS] == cluster.state_of("orders")
    assert "orders" in cluster.brokers[victim].shown


@pytest.mark.slow
def test_large_topic_is_made_in_parts_that_the_store_can_take(cluster: Cluster) -> None:
    count = 5_000
    image = create(cluster, assignment={partition: (partition % 3 + 1,) for partition in range(count)})
    assert isinstance(image, TopicImage)
    for broker_id, broker in cluster.brokers.items():
        assert len(broker.states) == count // 3 + (broker_id <= count % 3)
    grown: list[object] = []
    cluster.controller.topics.add_partitions(NewPartitions("orders", count + 2_000), grown.append)
    cluster.loop.run_until(lambda: bool(grown))
    assert grown == [None]
    assert sum(len(broker.states) for broker in cluster.brokers.values()) == count + 2_000
    deleted: list[object] = []
    cluster.controller.topics.delete("orders", deleted.append)
    cluster.loop.run_until(lambda: bool(deleted))
    assert cluster.topics() == ()
    assert max(store.multi_bytes_max for store in cluster.stores.values()) < 512 * 1024


def test_who_waits_for_an_election_hears_that_the_controller_is_gone(cluster: Cluster) -> None:
    create(cluster)
    outcomes: list[object] = []
    cluster.controller.elect_leaders(Strategy.UNCLEAN, None, outcomes.append)
    cluster.controller.resign()
    (outcome,) = outcomes
    assert isinstance(outcome, TopicFault)
    assert outcome.error_code == ErrorCode.NOT_CONTROLLER


def test_controller_that_resigns_leaves_the_cluster_to_another(cluster: Cluster) -> None:
    (old,) = cluster.active
    cluster.controller.resign()
    cluster.settle(1)
    assert cluster.active != [old]
    assert len(cluster.active) == 1
