"""What a broker answers that is not the controller: error 41 to what the controller decides."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.broker.control_values import carry_out, update_metadata
from tests.broker.rig import Rig

NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER


@pytest.fixture
def follower(rig: Rig) -> Rig:
    """A broker that heard of another controller."""
    rig.create_topic("orders")
    carry_out(rig, update_metadata())
    return rig


def test_topics_are_created_by_the_controller(follower: Rig) -> None:
    for version in (2, 7):
        request = CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)])
        response = follower.ask(request, CreateTopicsResponse, version)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", NOT_CONTROLLER)]
    assert "a" not in follower.cache.topics


def test_topics_are_deleted_by_the_controller(follower: Rig) -> None:
    by_name = follower.ask(DeleteTopicsRequest(topic_names=["orders"]), DeleteTopicsResponse, 5)
    by_id = follower.ask(
        DeleteTopicsRequest(topics=[DeleteTopicState(name="orders"), DeleteTopicState(topic_id=b"\x07" * 16)]),
        DeleteTopicsResponse,
        6,
    )
    assert [(one.name, one.error_code) for one in by_name.responses] == [("orders", NOT_CONTROLLER)]
    assert [(one.name, one.error_code) for one in by_id.responses] == [
        ("orders", NOT_CONTROLLER),
        (None, NOT_CONTROLLER),
    ]
    assert "orders" in follower.cache.topics


def test_topics_grow_by_the_controller(follower: Rig) -> None:
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=3, assignments=None)])
    response = follower.ask(request, CreatePartitionsResponse, 3)
    assert [(one.name, one.error_code) for one in response.results] == [("orders", NOT_CONTROLLER)]


def test_leaders_are_elected_by_the_controller(follower: Rig) -> None:
    named = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="orders", partitions=[0])])
    for version in (0, 2):
        response = follower.ask(named, ElectLeadersResponse, version)
        assert response.replica_election_results[0].partition_result[0].error_code == NOT_CONTROLLER
    assert (
        follower.ask(ElectLeadersRequest(topic_partitions=None), ElectLeadersResponse, 2).error_code == NOT_CONTROLLER
    )


def test_replicas_are_moved_by_the_controller(follower: Rig) -> None:
    altered = follower.ask(AlterPartitionReassignmentsRequest(), AlterPartitionReassignmentsResponse, 0)
    listed = follower.ask(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse, 0)
    assert (altered.error_code, listed.error_code) == (NOT_CONTROLLER, NOT_CONTROLLER)
