"""Reads all topics out of the coordination store at the start: names, configs, assignments, partition states."""

from collections.abc import Callable
from functools import partial

from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Code, Result, Store
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.types import NO_LEADER_EPOCH

OnLoaded = Callable[["dict[str, TopicImage] | TreeError"], None]

_NO_LEADER = -1


class TreeError(Exception):
    """The tree can't be read; the message says which node and why."""


class TreeLoader:
    """One reading of the tree. All reads go out at once; the last answer calls `on_loaded`."""

    def __init__(self, store: Store, on_loaded: OnLoaded) -> None:
        self._store = store
        self._on_loaded = on_loaded
        self._open_questions = 0
        self._failed = False
        self._assignments: dict[str, paths.TopicAssignment] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self._states: dict[tuple[str, int], paths.PartitionState] = {}

    def start(self) -> None:
        self._ask(self._store.children, paths.TOPICS, self._on_topics)

    def _on_topics(self, result: Result) -> None:
        for name in result.children:
            self._ask(self._store.get, paths.topic_path(name), partial(self._on_topic, name))
            self._ask(self._store.get, paths.config_path("topics", name), partial(self._on_config, name))

    def _on_topic(self, name: str, result: Result) -> None:
        assignment = paths.decode_topic(result.path, result.value)
        self._assignments[name] = assignment
        for partition in assignment.partitions:
            self._ask(
                self._store.get, paths.partition_state_path(name, partition), partial(self._on_state, (name, partition))
            )

    def _on_config(self, name: str, result: Result) -> None:
        self._configs[name] = paths.decode_config(result.path, result.value)

    def _on_state(self, key: tuple[str, int], result: Result) -> None:
        if result.is_ok:
            self._states[key] = paths.decode_partition_state(result.path, result.value)

    def _ask(
        self, question: Callable[[str, Callable[[Result], None]], None], path: str, on_answer: Callable[[Result], None]
    ) -> None:
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
            self._open_questions -= 1
            if self._open_questions == 0:
                self._on_loaded({name: self._image_of(name) for name in self._assignments})

        question(path, on_done)

    def _fail(self, problem: str) -> None:
        self._failed = True
        self._on_loaded(TreeError(problem))

    def _image_of(self, name: str) -> TopicImage:
        assignment = self._assignments[name]
        partitions = {}
        for partition, replicas in sorted(assignment.partitions.items()):
            state = self._states.get((name, partition))
            if state is None:  # assigned, but no leader was ever elected
                partitions[partition] = PartitionState(_NO_LEADER, NO_LEADER_EPOCH, (), replicas)
            else:
                partitions[partition] = PartitionState(state.leader, state.leader_epoch, state.isr, replicas)
        return TopicImage(name, assignment.topic_id, self._configs.get(name, {}), partitions)
