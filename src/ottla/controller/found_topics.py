"""Topics and partitions that somebody else has written into the tree: the controller takes them up.

Nothing is written here. The partitions have no leader yet; electing one writes their nodes.
"""

from typing import NamedTuple

from ottla.controller.deltas import PartitionsAdded, TopicCreated
from ottla.controller.events import Decision, Inputs, NodeWanted
from ottla.controller.state import ClusterState
from ottla.controller.topic_faults import TopicFault, fault_of_store, not_hosted, topic_exists
from ottla.controller.topic_names import topic_key
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Result
from ottla.core.cluster import NO_LEADER, PartitionState, TopicImage
from ottla.core.errors import ErrorCode
from ottla.core.types import NO_LEADER_EPOCH


class TopicFound(NamedTuple):
    """A topic that was read from the tree, and that this controller has not made itself."""

    image: TopicImage

    @property
    def key(self) -> str:
        return topic_key(self.image.name)

    def decide(self, state: ClusterState, inputs: Inputs, node: Result | None) -> Decision | NodeWanted | TopicFault:
        name = self.image.name
        if name in state.topics:
            return topic_exists(name)
        if node is None:
            return NodeWanted(paths.topic_path(name))  # it may have been deleted since it was read
        assigned = _assigned_in(node)
        if isinstance(assigned, TopicFault):
            return assigned
        return not_hosted() if assigned.topic_id != self.image.topic_id else Decision(TopicCreated(self.image))

    def fault_of(self, result: Result) -> TopicFault:
        return fault_of_store(self.image.name, result)


class TopicGrown(NamedTuple):
    """The node of a topic was changed."""

    topic: str

    @property
    def key(self) -> str:
        return topic_key(self.topic)

    def decide(self, state: ClusterState, inputs: Inputs, node: Result | None) -> Decision | NodeWanted | TopicFault:
        name = self.topic
        image = state.find(name)
        if image is None:
            return not_hosted()
        if node is None:
            return NodeWanted(paths.topic_path(name))
        assigned = _assigned_in(node)
        if isinstance(assigned, TopicFault):
            return assigned
        added = {
            partition: PartitionState(NO_LEADER, NO_LEADER_EPOCH, (), replicas)
            for partition, replicas in sorted(assigned.partitions.items())
            if partition not in image.partitions
        }
        return Decision(PartitionsAdded(name, added)) if added else topic_exists(name)

    def fault_of(self, result: Result) -> TopicFault:
        return fault_of_store(self.topic, result)


def _assigned_in(node: Result) -> paths.TopicAssignment | TopicFault:
    if node.stat is None:
        return not_hosted()
    try:
        return paths.decode_topic(node.path, node.value)
    except MalformedNodeError as error:
        return TopicFault(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
