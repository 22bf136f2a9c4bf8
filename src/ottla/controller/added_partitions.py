"""More partitions for a topic that exists: decided on what its node says, and written under that version."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.controller.deltas import PartitionsAdded
from ottla.controller.events import Decision, Inputs, NodeWanted, Proof
from ottla.controller.placement import (
    PARTITIONS_MAX,
    Assignment,
    check_added_assignment,
    check_replication_factor,
    first_states,
    impossible_count,
    place,
)
from ottla.controller.state import ClusterState
from ottla.controller.topic_faults import TopicFault, fault_of_store, not_hosted
from ottla.controller.topic_names import topic_key
from ottla.controller.topic_nodes import addition_of, grown_node
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Code, Result
from ottla.core.cluster import INTERNAL_TOPICS, PartitionState
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have in all, and where the new ones go if that is not left to the broker.

    An event of the controller.
    """

    topic: str
    total: int
    assignments: Sequence[tuple[BrokerId, ...]] | None = None

    @property
    def key(self) -> str:
        return topic_key(self.topic)

    def decide(self, state: ClusterState, inputs: Inputs, node: Result | None) -> Decision | NodeWanted | TopicFault:
        name = self.topic
        if state.find(name) is None:
            return not_hosted()
        if name in INTERNAL_TOPICS:
            return TopicFault(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{name!r} is the broker's own: its keys are spread over the partitions that it was made with",
            )
        if node is None:
            return NodeWanted(paths.topic_path(name))
        if node.stat is None:
            return not_hosted()
        try:
            assigned = paths.decode_topic(node.path, node.value)
        except MalformedNodeError as error:
            return TopicFault(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        added = _added_to(assigned, self, inputs)
        if isinstance(added, TopicFault):
            return added
        value = grown_node(assigned, added)
        writes = addition_of(name, value, added, controller_epoch=inputs.controller_epoch, version=node.stat.version)
        return Decision(PartitionsAdded(name, added), writes, Proof(node.path, value))

    def fault_of(self, result: Result) -> TopicFault:
        return not_hosted() if result.code == Code.NO_NODE else fault_of_store(self.topic, result)


def _added_to(
    assigned: paths.TopicAssignment, wanted: NewPartitions, inputs: Inputs
) -> dict[int, PartitionState] | TopicFault:
    name, total, assignments = wanted
    present = len(assigned.partitions)
    if total <= present:
        if total == present:
            return TopicFault(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
        return TopicFault(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {present} partition(s); {total} would not be an increase.",
        )
    if total - present > PARTITIONS_MAX:
        return impossible_count(total - present)
    live = inputs.live_brokers
    first = next(iter(assigned.partitions.values()), ())
    if assignments is not None:
        added = {present + number: tuple(replicas) for number, replicas in enumerate(assignments)}
        fault = check_added_assignment(added, live, expected_partitions=total - present, replication_factor=len(first))
    else:
        fault = check_replication_factor(len(first), live)
        added = _place(inputs, present, total, first) if fault is None else {}
    if fault is not None:
        return fault
    return first_states(added, led_at_once_max=inputs.led_at_once_max)


def _place(inputs: Inputs, present: int, total: int, first: tuple[BrokerId, ...]) -> Assignment:
    """Go on round the brokers where the topic's first partition began, as if it had been made with all of them."""
    ring = sorted(inputs.live_brokers)
    (shift,) = inputs.random_bytes(1)
    placed = place(
        ring,
        partitions=total,
        replication_factor=len(first),
        first_broker=ring.index(first[0]) if first[0] in ring else 0,
        first_shift=shift % len(ring),
    )
    return {partition: placed[partition] for partition in range(present, total)}
