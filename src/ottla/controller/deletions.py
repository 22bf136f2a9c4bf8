"""The deletion of a topic, in two steps: noted in the store, and after its files are gone, removed from it.

The note comes before the first file goes, so that the next start finishes what a crash cut off.
"""

from typing import NamedTuple

from ottla.controller.deltas import TopicDeleted, TopicDeletionStarted
from ottla.controller.events import Decision, Inputs, NodeWanted, Proof
from ottla.controller.state import ClusterState
from ottla.controller.topic_faults import TopicFault, fault_of_store, not_hosted
from ottla.controller.topic_names import topic_key
from ottla.controller.topic_nodes import removal_of, removal_of_rest
from ottla.coordination import paths
from ottla.coordination.store import Create, Result
from ottla.core.cluster import INTERNAL_TOPICS
from ottla.core.errors import ErrorCode


class TopicDeletion(NamedTuple):
    """A request to delete a topic; `is_noted`: the store has it already, and nothing is left to check."""

    topic: str
    is_noted: bool = False

    @property
    def key(self) -> str:
        return topic_key(self.topic)

    def decide(self, state: ClusterState, inputs: Inputs, node: Result | None) -> Decision | TopicFault:
        name = self.topic
        image = state.find(name)
        if image is None:
            return not_hosted()
        delta = TopicDeletionStarted(name, tuple(image.partitions))
        if self.is_noted:
            return Decision(delta)
        if not inputs.config.get_bool("delete.topic.enable"):
            return TopicFault(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
        if name in INTERNAL_TOPICS:
            return TopicFault(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is the broker's own")
        note = Create(paths.delete_topic_path(name), b"")
        return Decision(delta, [note], Proof(note.path, note.value))

    def fault_of(self, result: Result) -> TopicFault:
        return fault_of_store(self.topic, result)


class DeletionFinished(NamedTuple):
    """The brokers have put the files of a topic out of the way."""

    topic: str

    @property
    def key(self) -> str:
        # A line of its own: nothing changes a topic that is being deleted, and requests for it are refused at once.
        return topic_key(self.topic) + "/deletion"

    def decide(self, state: ClusterState, inputs: Inputs, node: Result | None) -> Decision | NodeWanted | TopicFault:
        name = self.topic
        if name not in state.being_deleted:
            return not_hosted()
        if node is None:
            return NodeWanted(paths.topic_partitions_path(name))
        writes = removal_of(state.topics[name]) if node.is_ok else removal_of_rest(name)
        # Not by the topic's node: another broker may have made a topic of that name since.
        return Decision(TopicDeleted(name), writes, Proof(paths.delete_topic_path(name), None))

    def fault_of(self, result: Result) -> TopicFault:
        return fault_of_store(self.topic, result)
