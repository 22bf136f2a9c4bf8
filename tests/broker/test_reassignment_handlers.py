"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and ListConfigResources over the wire.

The codes, and how an answer is built up, are those that Apache Kafka 4.3 gives as a single broker.
"""

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tests.broker.conftest import MakeRig
from tests.broker.rig import BROKER_ID, Rig

NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
PREFERRED, UNCLEAN = 0, 1
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

Codes = list[tuple[str, list[tuple[int, int]]]]


# ElectLeaders


def elect(
    rig: Rig, *wanted: tuple[str, list[int]], election_type: int = PREFERRED, version: int = 2
) -> tuple[int, Codes]:
    """(error code, those of each partition) for the partitions that are named."""
    return _elect(
        rig, [TopicPartitions(topic=name, partitions=indexes) for name, indexes in wanted], election_type, version
    )


def elect_all(rig: Rig, *, election_type: int = PREFERRED, version: int = 2) -> tuple[int, Codes]:
    return _elect(rig, None, election_type, version)


def _elect(rig: Rig, named: list[TopicPartitions] | None, election_type: int, version: int) -> tuple[int, Codes]:
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=named, timeout_ms=1000)
    answer = rig.ask(request, ElectLeadersResponse, version)
    told = [entry for result in answer.replica_election_results for entry in result.partition_result]
    assert all(entry.error_message for entry in told)
    return answer.error_code, [
        (result.topic, [(entry.partition_id, entry.error_code) for entry in result.partition_result])
        for result in answer.replica_election_results
    ]


@pytest.mark.parametrize(("version", "election_type"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)])
def test_partitions_that_are_led_need_no_election(rig: Rig, version: int, election_type: int) -> None:
    rig.create_topic("orders", 2)
    rig.create_topic("payments")
    code, results = elect(
        rig,
        ("orders", [1, 0, 7, 1]),
        ("none", [0]),
        ("orders", [0]),
        ("payments", []),
        election_type=election_type,
        version=version,
    )
    assert code == 0
    assert results == [
        ("orders", [(1, NOT_NEEDED), (0, NOT_NEEDED), (7, UNKNOWN), (1, NOT_NEEDED)]),
        ("none", [(0, UNKNOWN)]),
        ("orders", [(0, NOT_NEEDED)]),
        ("payments", []),
    ]
    assert elect_all(rig, election_type=election_type, version=version) == (0, [("orders", []), ("payments", [])])
    assert elect(rig, election_type=election_type, version=version) == (0, [])


def test_partition_whose_directory_failed_has_no_leader_to_be_elected(make_rig: MakeRig) -> None:
    rig = make_rig(directories=("/one", "/two"))
    rig.create_topic("orders", 2)
    rig.log_manager.fail_dir("/two", "broken")
    (lost,) = [index for index in (0, 1) if rig.partition(index=index).is_offline]
    for election_type, code in [
        (PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ]:
        named = elect(rig, ("orders", [lost, 1 - lost]), election_type=election_type)
        assert named == (0, [("orders", [(lost, code), (1 - lost, NOT_NEEDED)])])
        assert elect_all(rig, election_type=election_type) == (0, [("orders", [(lost, code)])])


@pytest.mark.parametrize("version", [1, 2])
def test_unknown_type_of_election_is_refused_as_a_whole_and_for_each_partition(rig: Rig, version: int) -> None:
    rig.create_topic("orders")
    refused = ErrorCode.INVALID_REQUEST
    assert elect(rig, ("orders", [0, 9]), ("none", [0]), election_type=5, version=version) == (
        refused,
        [("orders", [(0, refused), (9, refused)]), ("none", [(0, refused)])],
    )
    assert elect_all(rig, election_type=-1, version=version) == (refused, [])


# AlterPartitionReassignments


def reassign(
    rig: Rig, *topics: tuple[str, list[tuple[int, list[int] | None]]], version: int = 1, may_change: bool = True
) -> Codes:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=1000,
        allow_replication_factor_change=may_change,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=target) for index, target in wanted],
            )
            for name, wanted in topics
        ],
    )
    answer = rig.ask(request, AlterPartitionReassignmentsResponse, version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert answer.allow_replication_factor_change == may_change
    for response in answer.responses:
        for partition in response.partitions:
            assert bool(partition.error_message) == bool(partition.error_code)
    return [
        (response.name, [(partition.partition_index, partition.error_code) for partition in response.partitions])
        for response in answer.responses
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_each_partition_has_its_own_verdict(rig: Rig, version: int) -> None:
    rig.create_topic("orders", 2)
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    before = rig.pump.tree()
    assert reassign(
        rig,
        ("orders", [(0, [BROKER_ID]), (0, None), (1, [BROKER_ID, BROKER_ID]), (1, [99]), (1, []), (2, [BROKER_ID])]),
        ("none", [(0, [BROKER_ID]), (1, None)]),
        ("orders", [(1, [BROKER_ID])]),
        version=version,
    ) == [
        ("orders", [(0, 0), (0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS), *[(1, refused)] * 3, (2, UNKNOWN)]),
        ("none", [(0, UNKNOWN), (1, UNKNOWN)]),
        ("orders", [(1, 0)]),
    ]
    assert rig.pump.tree() == before
    assert reassign(rig, version=version) == []


def test_replication_factor_that_may_not_change_stays(rig: Rig) -> None:
    image = rig.create_topic("orders")
    assert reassign(rig, ("orders", [(0, [BROKER_ID])]), may_change=False) == [("orders", [(0, 0)])]
    of_two = image.partitions[0]._replace(replicas=(BROKER_ID, 2))
    rig.cache.put_topic(image._replace(partitions={0: of_two}))
    wanted = ("orders", [(0, [BROKER_ID])])
    assert reassign(rig, wanted, may_change=False) == [("orders", [(0, ErrorCode.INVALID_REPLICATION_FACTOR)])]
    assert reassign(rig, wanted) == [("orders", [(0, ErrorCode.INVALID_REPLICA_ASSIGNMENT)])]


# ListPartitionReassignments


def test_no_reassignment_is_in_progress(rig: Rig) -> None:
    rig.create_topic("orders")
    assert reassign(rig, ("orders", [(0, [BROKER_ID])])) == [("orders", [(0, 0)])]
    named = [
        ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0, 9]),
        ListPartitionReassignmentsTopics(name="none", partition_indexes=[0]),
    ]
    for topics in (None, [], named):
        request = ListPartitionReassignmentsRequest(timeout_ms=1000, topics=topics)
        answer = rig.ask(request, ListPartitionReassignmentsResponse, 0)
        assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


# ListConfigResources


def resources(rig: Rig, *types: int, version: int = 1) -> tuple[int, set[tuple[int, str]]]:
    answer = rig.ask(ListConfigResourcesRequest(resource_types=list(types)), ListConfigResourcesResponse, version)
    listed = [(resource.resource_type, resource.resource_name) for resource in answer.config_resources]
    assert len(listed) == len(set(listed))
    return answer.error_code, set(listed)


def test_resources_are_listed_by_their_types(rig: Rig) -> None:
    rig.create_topic("orders")
    rig.create_topic("payments")
    topics = {(TOPIC, "orders"), (TOPIC, "payments")}
    broker = (BROKER, str(BROKER_ID))
    loggers = (BROKER_LOGGER, str(BROKER_ID))
    assert resources(rig) == (0, {*topics, broker, loggers})
    assert resources(rig, TOPIC) == (0, topics)
    assert resources(rig, BROKER) == (0, {broker})
    assert resources(rig, BROKER_LOGGER, TOPIC, TOPIC) == (0, {*topics, loggers})
    assert resources(rig, CLIENT_METRICS, GROUP) == (0, set())


def test_first_version_lists_client_metrics_alone_and_there_are_none(rig: Rig) -> None:
    rig.create_topic("orders")
    assert resources(rig, version=0) == (0, set())


@pytest.mark.parametrize("unknown", [0, 1, 5, 99, -1, 64])
def test_type_that_has_no_configs_fails_the_whole_request(rig: Rig, unknown: int) -> None:
    assert resources(rig, TOPIC, unknown) == (ErrorCode.UNSUPPORTED_VERSION, set())
