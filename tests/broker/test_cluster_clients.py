"""What clients see on one broker of several: metadata, coordinators that move, topics that others have to make."""

import pytest

from ottla.coordination import paths
from ottla.core.cluster import NO_LEADER, OFFSETS_TOPIC, PartitionState, TopicImage
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tests.broker.control_values import OTHER, broker, carry_out, image, leader_and_isr, led_by, update_metadata
from tests.broker.rig import BROKER_ID, Rig

GROUP = "readers"
OFFSETS_ID = b"\x09" * 16
THIRD = 3


def offsets_image(state: PartitionState) -> TopicImage:
    return image({0: state}, name=OFFSETS_TOPIC, topic_id=OFFSETS_ID)


def elect(rig: Rig, leader: int, epoch: int) -> None:
    """The controller elects the leader of the only partition of __consumer_offsets, and everybody hears of it."""
    state = led_by(leader, epoch, isr=(leader,), version=epoch)
    carry_out(rig, leader_and_isr({0: state}, topic=OFFSETS_TOPIC, topic_id=OFFSETS_ID))
    carry_out(rig, update_metadata(offsets_image(state)))
    rig.settle()


@pytest.fixture
def member(rig: Rig) -> Rig:
    """Broker 1 of a cluster whose controller is broker 2; it has one topic."""
    carry_out(rig, update_metadata(image({0: led_by(BROKER_ID)}), is_full=True))
    return rig


def find(rig: Rig) -> tuple[int, int, str]:
    found = rig.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, 3)
    return found.error_code, found.node_id, found.host


def commit(rig: Rig, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    response = rig.ask(OffsetCommitRequest(group_id=GROUP, topics=[topic]), OffsetCommitResponse, 8)
    return response.topics[0].partitions[0].error_code


def committed(rig: Rig) -> tuple[int, int]:
    """(error code, offset)"""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    (group,) = rig.ask(request, OffsetFetchResponse, 8).groups
    offsets = [partition.committed_offset for topic in group.topics for partition in topic.partitions]
    return group.error_code, offsets[0] if offsets else -1


# Metadata


def test_metadata_is_that_of_the_whole_cluster(member: Rig) -> None:
    states = {
        0: led_by(OTHER, 3, isr=(OTHER,)),
        1: led_by(NO_LEADER, 4),
        2: PartitionState(THIRD, 5, (THIRD,), (THIRD, OTHER)),
    }
    carry_out(member, update_metadata(image(states, name="bills", topic_id=b"\x02" * 16)))
    response = member.ask(MetadataRequest(topics=[MetadataRequestTopic(name="bills")]), MetadataResponse, 12)
    assert response.controller_id == OTHER
    assert [(one.node_id, one.host) for one in response.brokers] == [(1, "broker1.test"), (2, "broker2.test")]
    shown = [
        (one.error_code, one.leader_id, one.leader_epoch, one.isr_nodes, one.offline_replicas)
        for one in response.topics[0].partitions
    ]
    unavailable = ErrorCode.LEADER_NOT_AVAILABLE
    assert shown == [
        (0, OTHER, 3, [OTHER], []),
        (unavailable, NO_LEADER, 4, [BROKER_ID, OTHER], []),
        (unavailable, NO_LEADER, 5, [THIRD], [THIRD]),  # broker 3 is dead, and the controller has not elected yet
    ]
    described = member.ask(DescribeTopicPartitionsRequest(), DescribeTopicPartitionsResponse, 0)
    assert [(one.error_code, one.leader_id) for one in described.topics[0].partitions] == [
        (code, leader) for code, leader, *_ in shown
    ]


def test_broker_that_dies_leaves_the_metadata_of_every_topic(member: Rig) -> None:
    carry_out(member, update_metadata(image({0: led_by(OTHER)})))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    assert member.ask(request, MetadataResponse, 12).topics[0].partitions[0].leader_id == OTHER
    carry_out(member, update_metadata(brokers=(broker(BROKER_ID),)))
    assert member.ask(request, MetadataResponse, 12).topics[0].partitions[0].leader_id == NO_LEADER
    cluster = member.ask(DescribeClusterRequest(), DescribeClusterResponse, 0)
    assert [one.broker_id for one in cluster.brokers] == [BROKER_ID]
    assert cluster.controller_id == OTHER


# Topics that are made when they are first needed


def test_unknown_topic_is_written_to_the_tree_for_the_controller(member: Rig) -> None:
    response = member.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), MetadataResponse, 12)
    assert response.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    node = member.pump.get(paths.topic_path("new"))
    assignment = paths.decode_topic(node.path, node.value)
    assert all(replica in (BROKER_ID, OTHER) for replica in assignment.partitions[0])
    assert member.pump.get(paths.config_path("topics", "new")).is_ok
    assert not member.pump.get(paths.topic_partitions_path("new")).is_ok  # the controller's to make
    assert "new" not in member.cache.topics
    again = member.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), MetadataResponse, 12)
    assert again.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # clients go on asking


def test_offsets_topic_is_written_to_the_tree_for_the_controller(member: Rig) -> None:
    assert find(member)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member.pump.get(paths.topic_path(OFFSETS_TOPIC)).is_ok
    elect(member, OTHER, 0)
    assert find(member) == (0, OTHER, "broker2.test")


# Coordinators


def test_coordinator_is_the_leader_wherever_one_asks(member: Rig) -> None:
    elect(member, OTHER, 0)
    assert find(member) == (0, OTHER, "broker2.test")
    assert commit(member, 5) == ErrorCode.NOT_COORDINATOR
    elect(member, BROKER_ID, 1)
    assert find(member) == (0, BROKER_ID, "broker1.test")
    assert commit(member, 5) == 0


def test_coordinator_that_is_dead_is_not_available(member: Rig) -> None:
    elect(member, OTHER, 0)
    carry_out(member, update_metadata(brokers=(broker(BROKER_ID),)))
    assert find(member)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    elect(member, NO_LEADER, 1)
    assert find(member)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_groups_are_loaded_with_leadership_and_unloaded_with_its_loss(member: Rig) -> None:
    elect(member, BROKER_ID, 0)
    assert commit(member, 5) == 0
    assert committed(member) == (0, 5)
    elect(member, OTHER, 1)
    assert committed(member)[0] == ErrorCode.NOT_COORDINATOR
    elect(member, BROKER_ID, 2)
    assert committed(member) == (0, 5)


def test_nothing_is_loaded_before_the_broker_knows_which_topics_there_are(rig: Rig) -> None:
    state = led_by(BROKER_ID, 0, isr=(BROKER_ID,))
    carry_out(rig, leader_and_isr({0: state}, topic=OFFSETS_TOPIC, topic_id=OFFSETS_ID))
    assert rig.coordinator.partition_count == 0
    assert not rig.coordinator.shards()
    carry_out(rig, update_metadata(image({0: led_by(BROKER_ID)}), offsets_image(state), is_full=True))
    rig.settle()
    assert len(rig.coordinator.shards()) == 1
    assert commit(rig, 7) == 0


def test_metadata_that_is_ahead_of_the_replica_does_not_spoil_the_load(member: Rig) -> None:
    state = led_by(BROKER_ID, 1, isr=(BROKER_ID,), version=1)
    elect(member, OTHER, 0)
    carry_out(member, update_metadata(offsets_image(state)))  # before the broker itself hears that it leads
    assert find(member)[1] == BROKER_ID
    assert commit(member, 5) == ErrorCode.NOT_COORDINATOR
    carry_out(member, leader_and_isr({0: state}, topic=OFFSETS_TOPIC, topic_id=OFFSETS_ID))
    member.settle()
    assert commit(member, 5) == 0


def test_deleted_topic_takes_its_offsets_with_it(member: Rig) -> None:
    elect(member, BROKER_ID, 0)
    assert commit(member, 5) == 0
    carry_out(member, update_metadata(deleted=("orders",)))
    assert committed(member) == (0, -1)
    carry_out(member, update_metadata(deleted=(OFFSETS_TOPIC,)))
    assert member.coordinator.partition_count == 0
