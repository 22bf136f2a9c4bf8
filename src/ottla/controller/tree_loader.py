"""Reads topics out of the coordination store: names, configs, assignments, partition states."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Code, OnDone, Result, Watch
from ottla.core.cluster import NO_LEADER, PartitionState, TopicImage
from ottla.core.types import NO_LEADER_EPOCH, BrokerId

OnLoaded = Callable[["dict[str, TopicImage] | TreeError"], None]


class Reader(Protocol):
    """What is needed of a store, a fenced one for example."""

    def get(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None: ...

    def children(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None: ...


class TreeError(Exception):
    """The tree can't be read; the message says which node and why."""


class TreeLoader:
    """One reading of the tree. All reads go out at once; the last answer calls `on_loaded`."""

    def __init__(
        self,
        store: Reader,
        on_loaded: OnLoaded,
        *,
        on_topics: Watch | None = None,
        on_topic: Watch | None = None,
    ) -> None:
        """The watches are for who wants to know which topics come or go, and what becomes of each one's assignment."""
        self._store = store
        self._on_loaded = on_loaded
        self._topics_watch = on_topics
        self._topic_watch = on_topic
        self._open_questions = 0
        self._failed = False
        self._assignments: dict[str, paths.TopicAssignment] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self._states: dict[tuple[str, int], tuple[paths.PartitionState, int]] = {}  # with versions
        self._eligible: dict[tuple[str, int], paths.EligibleReplicas] = {}
        self._has_asked_eligible = False
        # By leader, the oldest write (zxid) of a partition's state that names it.
        self.oldest_led: dict[BrokerId, int] = {}

    def start(self) -> None:
        """Read all topics."""
        self._ask(partial(self._store.children, watch=self._topics_watch), paths.TOPICS, self._on_topics)

    def start_with(self, names: Iterable[str]) -> None:
        """Read these, as many of them as there are."""
        self._open_questions += 1
        for name in names:
            self._read(name)
        self._end_question()

    def _on_topics(self, result: Result) -> None:
        for name in result.children:
            self._read(name)

    def _read(self, name: str) -> None:
        read = partial(self._store.get, watch=self._topic_watch)
        self._ask(read, paths.topic_path(name), partial(self._on_topic, name))
        self._ask(self._store.get, paths.config_path("topics", name), partial(self._on_config, name))

    def _on_topic(self, name: str, result: Result) -> None:
        if not result.is_ok:  # it went between the list and this
            return
        assignment = paths.decode_topic(result.path, result.value)
        self._assignments[name] = assignment
        for partition in assignment.partitions:
            self._ask(
                self._store.get, paths.partition_state_path(name, partition), partial(self._on_state, (name, partition))
            )

    def _on_config(self, name: str, result: Result) -> None:
        self._configs[name] = paths.decode_config(result.path, result.value)

    def _on_state(self, key: tuple[str, int], result: Result) -> None:
        if result.stat is not None:
            state = paths.decode_partition_state(result.path, result.value)
            self._states[key] = (state, result.stat.version)
            if result.stat.mzxid < self.oldest_led.get(state.leader, result.stat.mzxid + 1):
                self.oldest_led[state.leader] = result.stat.mzxid

    def _ask(self, question: Callable[[str, OnDone], None], path: str, on_answer: Callable[[Result], None]) -> None:
        self._open_questions += 1

        def on_done(result: Result) -> None:
            if self._failed:
                return
            if result.is_ok or result.code == Code.NO_NODE:
                try:
                    on_answer(result)
                except MalformedNodeError as error:
                    self._fail(str(error))
                    return
            else:
                self._fail(f"reading {path} from the coordination store: {result.code.name} {result.detail}")
                return
            self._end_question()

        question(path, on_done)

    def _on_eligible_names(self, result: Result) -> None:
        for name in result.children:
            key = paths.partition_of_eligible(name)
            if key in self._states:
                self._ask(self._store.get, paths.eligible_path(*key), partial(self._on_eligible, key))

    def _on_eligible(self, key: tuple[str, int], result: Result) -> None:
        if result.is_ok:
            self._eligible[key] = paths.decode_eligible(result.path, result.value)

    def _end_question(self) -> None:
        self._open_questions -= 1
        if self._open_questions == 0 and not self._has_asked_eligible:
            # After the states: if eligible replicas are newer than those, whoever writes them fails by the version.
            self._has_asked_eligible = True
            self._ask(self._store.children, paths.ELIGIBLE, self._on_eligible_names)
        elif self._open_questions == 0:
            self._on_loaded({name: self._image_of(name) for name in self._assignments})

    def _fail(self, problem: str) -> None:
        self._failed = True
        self._on_loaded(TreeError(problem))

    def _image_of(self, name: str) -> TopicImage:
        assignment = self._assignments[name]
        partitions = {}
        for partition, replicas in sorted(assignment.partitions.items()):
            found = self._states.get((name, partition))
            if found is None:  # assigned, but no leader was ever elected
                partitions[partition] = PartitionState(NO_LEADER, NO_LEADER_EPOCH, (), replicas)
            else:
                state, version = found
                node = self._eligible.get((name, partition))
                partitions[partition] = PartitionState(
                    state.leader,
                    state.leader_epoch,
                    state.isr,
                    replicas,
                    version,
                    None if node is None else node.eligible,
                    () if node is None else node.lossy,
                )
        return TopicImage(name, assignment.topic_id, self._configs.get(name, {}), partitions)
