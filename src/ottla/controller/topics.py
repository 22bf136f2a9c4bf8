"""Topics for handlers: looked up in the controller's state, created, grown and deleted through its queue."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from ottla.controller.added_partitions import NewPartitions
from ottla.controller.deletions import DeletionFinished, TopicDeletion
from ottla.controller.deltas import TopicCreated
from ottla.controller.new_topics import NewTopic
from ottla.controller.queue import Done, EventQueue
from ottla.controller.state import ClusterState
from ottla.controller.topic_faults import NO_CONTROLLER, TopicFault, fault_of_store
from ottla.core.cluster import TopicImage
from ottla.core.config.config import TopicConfig

OnDone = Callable[[TopicFault | None], None]


class Topics:
    """What handlers ask the controller about topics; event loop only."""

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._creations: dict[str, _Creations] = {}  # by topic
        self._deletions: dict[str, list[OnDone]] = {}  # by topic: who waits for its end

    def use(self, queue: EventQueue) -> None:
        """This broker controls the cluster from now on, or does so no longer: then the queue is a closed one."""
        self._queue = queue
        deletions, self._deletions = self._deletions, {}
        for name, waiting in deletions.items():
            for on_done in waiting:
                on_done(fault_of_store(name, NO_CONTROLLER))

    @property
    def state(self) -> ClusterState:
        return self._queue.state

    def config_of(self, image: TopicImage) -> TopicConfig:
        """All settings of a topic, with where each comes from."""
        return TopicConfig.of_stored(image.configs, self._queue.current.value)[0]

    def create(
        self, new: NewTopic, on_done: Callable[[TopicImage | TopicFault], None], *, validate_only: bool = False
    ) -> None:
        """Calls `on_done` when clients can use the topic.

        Of several creations of one name, those that lose are answered when the first is done, so that each client
        finds a topic that it can use.
        """
        creations = self._creations.setdefault(new.name, _Creations())
        creations.unsettled += 1

        def on_settled(outcome: Done | TopicFault) -> None:
            creations.unsettled -= 1
            try:
                if isinstance(outcome, Done):
                    assert isinstance(outcome.delta, TopicCreated)
                    on_done(outcome.delta.image)
                else:
                    creations.refused.append(partial(on_done, outcome))
            finally:  # as in the queue: a bug in one callback must not stop the others
                if not creations.unsettled:
                    self._creations.pop(new.name, None)
                    with ExitStack() as answers:
                        while creations.refused:
                            answers.callback(creations.refused.pop())

        self._queue.submit(new, on_settled, validate_only=validate_only)

    def add_partitions(self, wanted: NewPartitions, on_done: OnDone, *, validate_only: bool = False) -> None:
        """Add partitions to a topic; calls `on_done` when clients can use them."""
        self._queue.submit(wanted, partial(_answer, on_done), validate_only=validate_only)

    def delete(self, name: str, on_done: OnDone) -> None:
        """Delete a topic with its data; calls `on_done` when nothing is left of it but on brokers that are dead."""
        self._delete(TopicDeletion(name), on_done)

    def finish_deletion(self, name: str, on_done: OnDone) -> None:
        """Go on with a deletion that the store has noted, and a crash has cut off."""
        self._delete(TopicDeletion(name, is_noted=True), on_done)

    def on_deletion_waiting(self, name: str) -> None:
        """All that is left of a topic is on dead brokers: clients have no reason to wait for those."""
        for on_done in self._deletions.pop(name, ()):
            on_done(None)

    def _delete(self, deletion: TopicDeletion, on_done: OnDone) -> None:
        name = deletion.topic
        waiting = self._deletions.setdefault(name, [])
        waiting.append(on_done)

        def on_end(outcome: Done | TopicFault) -> None:
            if on_done in waiting and self._deletions.get(name) is waiting:
                waiting.remove(on_done)
                if not waiting:
                    del self._deletions[name]
                _answer(on_done, outcome)

        def on_files_gone(outcome: Done | TopicFault) -> None:
            if isinstance(outcome, Done):
                self._queue.submit(DeletionFinished(name), on_end)
            else:
                on_end(outcome)

        self._queue.submit(deletion, on_files_gone)


class _Creations:
    """The creations of one name, until all of them are settled."""

    __slots__ = ("refused", "unsettled")

    def __init__(self) -> None:
        self.unsettled = 0
        self.refused: list[Callable[[], None]] = []


def _answer(on_done: OnDone, outcome: Done | TopicFault) -> None:
    on_done(None if isinstance(outcome, Done) else outcome)
