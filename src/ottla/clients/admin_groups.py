"""Consumer groups for administrators: list, describe with members and their partitions, delete, find the coordinator.

It supports classic groups and those of the newer protocol (KIP-848), which have their own API.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from ottla.clients.admin_retry import ask_each, left_out, outcome_of
from ottla.clients.cluster import Cluster, ClusterBroker
from ottla.clients.errors import BrokerError, check
from ottla.clients.network.coordinators import GROUP, ONE_KEY_VERSION_MAX
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import BrokerId, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import decode
from ottla.protocol.messages import consumer_group_describe, describe_groups
from ottla.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

CONSUMER_PROTOCOL: Final = "consumer"
DEAD: Final = "Dead"
EMPTY: Final = "Empty"

R = TypeVar("R")


class ListedGroup(NamedTuple):
    """State and type are empty on brokers that don't list them."""

    group_id: str
    type: str
    state: str
    protocol_type: str


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """The epoch is that of the newer protocol, None for a classic group."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    epoch: int | None
    coordinator_id: BrokerId
    members: tuple[GroupMember, ...]

    @property
    def has_members(self) -> bool:
        return bool(self.members)


def list_groups(cluster: Cluster) -> list[ListedGroup]:
    """All groups of all brokers, sorted by name."""

    def attempt() -> list[ListedGroup]:
        cluster.refresh([])
        found = {}
        for broker_id in cluster.brokers:
            answer = cluster.broker(broker_id).request(ListGroupsRequest(), ListGroupsResponse)
            check(answer.error_code, f"listing the groups of broker {broker_id}")
            for group in answer.groups:
                found[group.group_id] = ListedGroup(
                    group.group_id, group.group_type, group.group_state, group.protocol_type
                )
        return [found[group_id] for group_id in sorted(found)]

    return cluster.retry(attempt)


def coordinators_of(cluster: Cluster, group_ids: list[str]) -> dict[str, BrokerId | BrokerError]:
    """The coordinator of each group; asks once, the caller retries."""
    broker = cluster.any_broker()
    outcomes: dict[str, BrokerId | BrokerError] = {}
    first, last = FindCoordinatorRequest.VERSIONS
    if not broker.serves(ApiKey.FIND_COORDINATOR, version=ONE_KEY_VERSION_MAX + 1):
        for group_id in group_ids:
            one = FindCoordinatorRequest(key=group_id, key_type=GROUP)
            answer = broker.request(one, FindCoordinatorResponse, versions=(first, ONE_KEY_VERSION_MAX))
            what = f"coordinator of group {group_id}"
            outcomes[group_id] = outcome_of(answer.error_code, what, answer.error_message, answer.node_id)
        return outcomes
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=group_ids)
    versions = (ONE_KEY_VERSION_MAX + 1, last)
    for found in broker.request(request, FindCoordinatorResponse, versions=versions).coordinators:
        what = f"coordinator of group {found.key}"
        outcomes[found.key] = outcome_of(found.error_code, what, found.error_message, found.node_id)
    return outcomes


def ask_coordinators(
    cluster: Cluster,
    group_ids: Iterable[str],
    ask: Callable[[ClusterBroker, BrokerId, list[str]], dict[str, R | BrokerError]],
) -> dict[str, R | BrokerError]:
    """Ask each group's coordinator; every attempt looks it up again, since it may have moved."""

    def attempt(left: list[str]) -> dict[str, R | BrokerError]:
        cluster.refresh([])
        outcomes: dict[str, R | BrokerError] = {group_id: left_out(f"group {group_id}") for group_id in left}
        by_broker: dict[BrokerId, list[str]] = {}
        for group_id, coordinator in coordinators_of(cluster, left).items():
            if isinstance(coordinator, BrokerError):
                outcomes[group_id] = coordinator
            else:
                by_broker.setdefault(coordinator, []).append(group_id)
        for broker_id, of_broker in by_broker.items():
            outcomes.update(ask(cluster.broker(broker_id), broker_id, of_broker))
        return outcomes

    return ask_each(cluster, group_ids, attempt)


def describe_each_group(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, GroupDescription | BrokerError]:
    """GROUP_ID_NOT_FOUND for a group that doesn't exist, whatever the broker's version."""
    return ask_coordinators(cluster, group_ids, _describe)


def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, BrokerError | None]:
    """Delete groups that have no members."""

    def ask(broker: ClusterBroker, broker_id: BrokerId, asked: list[str]) -> dict[str, BrokerError | None]:
        answer = broker.request(DeleteGroupsRequest(groups_names=asked), DeleteGroupsResponse)
        return {
            result.group_id: outcome_of(result.error_code, f"deleting group {result.group_id}", None, None)
            for result in answer.results
        }

    return ask_coordinators(cluster, group_ids, ask)


def _describe(
    broker: ClusterBroker, broker_id: BrokerId, asked: list[str]
) -> dict[str, GroupDescription | BrokerError]:
    outcomes: dict[str, GroupDescription | BrokerError] = {}
    if broker.serves(ApiKey.CONSUMER_GROUP_DESCRIBE):
        request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=asked)
        answer = broker.request(request, consumer_group_describe.ConsumerGroupDescribeResponse)
        for group in answer.groups:
            # Classic groups are "not found" or "unsupported" here; the request below describes them.
            if group.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                what = f"describing group {group.group_id}"
                described = _newer_group(group, broker_id)
                outcomes[group.group_id] = outcome_of(group.error_code, what, group.error_message, described)
    classic = [group_id for group_id in asked if group_id not in outcomes]
    if classic:
        outcomes.update(_describe_classic(broker, broker_id, classic))
    return outcomes


def _newer_group(group: consumer_group_describe.DescribedGroup, broker_id: BrokerId) -> GroupDescription:
    members = tuple(
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            tuple(
                sorted(
                    TopicPartition(topic.topic_name, partition)
                    for topic in member.assignment.topic_partitions
                    for partition in topic.partitions
                )
            ),
        )
        for member in group.members
    )
    return GroupDescription(
        group.group_id,
        "consumer",
        group.group_state,
        CONSUMER_PROTOCOL,
        group.assignor_name,
        group.group_epoch,
        broker_id,
        members,
    )


def _describe_classic(
    broker: ClusterBroker, broker_id: BrokerId, asked: list[str]
) -> dict[str, GroupDescription | BrokerError]:
    outcomes: dict[str, GroupDescription | BrokerError] = {}
    request = describe_groups.DescribeGroupsRequest(groups=asked)
    for group in broker.request(request, describe_groups.DescribeGroupsResponse).groups:
        what = f"describing group {group.group_id}"
        error_code = group.error_code
        if error_code == ErrorCode.NONE and group.group_state == DEAD:
            error_code = ErrorCode.GROUP_ID_NOT_FOUND  # how brokers report it before version 6
        if error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            outcomes[group.group_id] = BrokerError(error_code, f"group {group.group_id}", "no such group")
        else:
            described = _classic_group(group, broker_id)
            outcomes[group.group_id] = outcome_of(error_code, what, group.error_message, described)
    return outcomes


def _classic_group(group: describe_groups.DescribedGroup, broker_id: BrokerId) -> GroupDescription:
    members = tuple(
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host.removeprefix("/"),  # Java writes an address after an empty host name
            _assignment(group.protocol_type, member.member_assignment),
        )
        for member in group.members
    )
    return GroupDescription(
        group.group_id,
        "classic",
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        None,
        broker_id,
        members,
    )


def _assignment(protocol_type: str, data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of a member, if it is a consumer; other protocols store other data there."""
    if protocol_type != CONSUMER_PROTOCOL or len(data) < 2:
        return ()
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.VERSIONS[1])
    try:
        assigned = decode(ConsumerProtocolAssignment, version, memoryview(data)[2:])
    except (ProtocolViolation, ValueError):
        return ()  # invalid data from another client; the rest of the group is still useful
    return tuple(
        sorted(
            TopicPartition(topic.topic, partition)
            for topic in assigned.assigned_partitions
            for partition in topic.partitions
        )
    )
