"""Topics are made and removed here: each request is checked, decided, written into the store, and then applied.

Owned by the controller; event loop only. What is in the store is the truth: a topic is applied to the broker only
after its nodes are committed, and a deletion is noted there before the first file goes, so that a crash in between is
finished by the next start.
"""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple, Protocol

from ottla.controller.placement import Assignment, place
from ottla.controller.topic_names import INTERNAL_TOPICS, collides, problem_with
from ottla.coordination import paths
from ottla.coordination.node_json import encode_uuid
from ottla.coordination.store import ANY_VERSION, Code, Create, Delete, Result, Store, Write
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.config.definition import ConfigError
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId

BY_DEFAULT = -1
# A topic is one transaction of the store; more partitions than this come with later additions.
PARTITIONS_MAX = 20_000


class NewTopic(NamedTuple):
    """What somebody asks for; -1 leaves a count to the broker's config."""

    name: str
    partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignment: Mapping[int, tuple[BrokerId, ...]] | None = None
    configs: Mapping[str, str | None] = {}


class TopicFault(NamedTuple):
    """Why nothing was done."""

    error_code: ErrorCode
    message: str


class TopicApplier(Protocol):
    """The broker's side: makes a decision real, then calls back."""

    def apply_topic(self, image: TopicImage, on_applied: Callable[[], None]) -> None: ...

    def remove_topic(self, name: str, on_removed: Callable[[], None]) -> None: ...


class Topics:
    """All topics of the cluster as the controller knows them."""

    def __init__(
        self,
        store: Store,
        config: BrokerConfig,
        applier: TopicApplier,
        *,
        random_bytes: Callable[[int], bytes],
        live_brokers: Callable[[], list[BrokerId]],
        controller_epoch: Callable[[], int],
    ) -> None:
        self._store = store
        self._config = config
        self._applier = applier
        self._random_bytes = random_bytes
        self._live_brokers = live_brokers
        self._controller_epoch = controller_epoch
        self.images: dict[str, TopicImage] = {}
        self._being_created: dict[str, int] = {}  # names on their way into the store, with how many ask for each
        self._being_deleted: set[str] = set()

    def put_loaded(self, image: TopicImage) -> None:
        """A topic that the store had at the start."""
        self.images[image.name] = image

    def create(
        self,
        new: NewTopic,
        on_done: Callable[[TopicImage | TopicFault], None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; `on_done` hears of it when clients can use it."""
        image = self._decide(new)
        if isinstance(image, TopicFault) or validate_only:
            on_done(image)
            return

        name = image.name
        # Two creates of one name both go to the store: the loser must not hear of it before the winner is there.
        self._being_created[name] = self._being_created.get(name, 0) + 1

        def on_written(result: Result) -> None:
            self._being_created[name] -= 1
            if not self._being_created[name]:
                del self._being_created[name]
            if not result.is_ok:
                on_done(_fault_of_store(name, result))
                return
            self.images[name] = image
            self._applier.apply_topic(image, lambda: on_done(image))

        self._store.multi(self._nodes_of(image), on_written)

    def delete(self, name: str, on_done: Callable[[TopicFault | None], None]) -> None:
        """Delete a topic with its data; `on_done` hears of it when its files are out of the way."""
        image = self.images.get(name)
        if image is None or name in self._being_deleted:
            on_done(TopicFault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"))
            return
        if not self._config.get_bool("delete.topic.enable"):
            on_done(TopicFault(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false"))
            return
        if name in INTERNAL_TOPICS:
            on_done(TopicFault(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is the broker's own"))
            return
        self._being_deleted.add(name)

        def on_noted(result: Result) -> None:
            if not result.is_ok and result.code != Code.NODE_EXISTS:
                self._being_deleted.discard(name)
                on_done(_fault_of_store(name, result))
                return
            self.finish_deletion(image, on_done)

        self._store.create(paths.delete_topic_path(name), b"", on_noted)

    def finish_deletion(self, image: TopicImage, on_done: Callable[[TopicFault | None], None]) -> None:
        """Remove the files, then the nodes; also called at the start for what a crash left half done."""
        name = image.name

        def on_forgotten(result: Result) -> None:
            self._being_deleted.discard(name)
            self.images.pop(name, None)
            on_done(None if result.is_ok else _fault_of_store(name, result))

        self._applier.remove_topic(name, lambda: self._store.multi(_removal_of(image), on_forgotten))

    def config_of(self, image: TopicImage) -> TopicConfig:
        """All settings of a topic, with where each comes from."""
        return TopicConfig.parse(image.configs, self._config)

    def _decide(self, new: NewTopic) -> TopicImage | TopicFault:
        name = new.name
        problem = problem_with(name)
        if problem is not None:
            return TopicFault(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name in self.images:
            return TopicFault(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
        for other in chain(self.images, self._being_created):
            if collides(name, other):
                return TopicFault(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"topic {name!r} differs from {other!r} only in '.' and '_', which metrics can't tell apart",
                )
        configs = _given(new.configs)
        if isinstance(configs, TopicFault):
            return configs
        try:
            TopicConfig.parse(configs, self._config)
        except ConfigError as error:
            return TopicFault(ErrorCode.INVALID_CONFIG, "; ".join(error.problems))
        assignment = self._assign(new)
        if isinstance(assignment, TopicFault):
            return assignment
        partitions = {
            index: PartitionState(leader=replicas[0], leader_epoch=0, isr=replicas, replicas=replicas)
            for index, replicas in assignment.items()
        }
        return TopicImage(name, self._new_topic_id(), configs, partitions)

    def _assign(self, new: NewTopic) -> Assignment | TopicFault:
        live = self._live_brokers()
        if new.assignment is not None:
            return _check_assignment(new, live)
        partitions = new.partitions
        if partitions == BY_DEFAULT:
            partitions = self._config.get_int("num.partitions")
        replication_factor = new.replication_factor
        if replication_factor == BY_DEFAULT:
            replication_factor = self._config.get_int("default.replication.factor")
        if not 0 < partitions <= PARTITIONS_MAX:
            return _impossible_count(partitions)
        if not 0 < replication_factor <= len(live):
            return TopicFault(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {replication_factor} asked for, {len(live)} brokers are alive",
            )
        first, shift = self._random_bytes(2)
        return place(
            live,
            partitions=partitions,
            replication_factor=replication_factor,
            first_broker=first % len(live),
            first_shift=shift % len(live),
        )

    def _new_topic_id(self) -> bytes:
        # A text form that starts with '-' would look like an option on a command line; Kafka avoids it too.
        while True:
            raw = bytearray(self._random_bytes(16))
            raw[6] = raw[6] & 0x0F | 0x40  # a version 4 UUID
            raw[8] = raw[8] & 0x3F | 0x80
            if not encode_uuid(bytes(raw)).startswith("-"):
                return bytes(raw)

    def _nodes_of(self, image: TopicImage) -> list[Write]:
        assignment = {index: state.replicas for index, state in image.partitions.items()}
        writes: list[Write] = [
            Create(paths.config_path("topics", image.name), paths.encode_config(image.configs)),
            Create(paths.topic_path(image.name), paths.encode_topic(paths.TopicAssignment(image.topic_id, assignment))),
            Create(paths.topic_partitions_path(image.name), b""),
        ]
        epoch = self._controller_epoch()
        for index, state in image.partitions.items():
            writes.append(Create(paths.partition_path(image.name, index), b""))
            node = paths.PartitionState(state.leader, state.leader_epoch, state.isr, controller_epoch=epoch)
            writes.append(Create(paths.partition_state_path(image.name, index), paths.encode_partition_state(node)))
        return writes


def _given(configs: Mapping[str, str | None]) -> dict[str, str] | TopicFault:
    missing = [name for name, value in configs.items() if value is None]
    if missing:
        return TopicFault(ErrorCode.INVALID_CONFIG, f"no value for {', '.join(missing)}")
    return {name: value for name, value in configs.items() if value is not None}


def _check_assignment(new: NewTopic, live: list[BrokerId]) -> Assignment | TopicFault:
    if new.partitions != BY_DEFAULT or new.replication_factor != BY_DEFAULT:
        return TopicFault(ErrorCode.INVALID_REQUEST, "give counts or an assignment of replicas, not both")
    assert new.assignment is not None
    assignment = dict(sorted(new.assignment.items()))
    if not 0 < len(assignment) <= PARTITIONS_MAX:
        return _impossible_count(len(assignment))
    if list(assignment) != list(range(len(assignment))):
        return TopicFault(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 without gaps")
    if len({len(replicas) for replicas in assignment.values()}) > 1:
        return TopicFault(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "every partition must have the same number of replicas")
    for index, replicas in assignment.items():
        if not replicas or len(set(replicas)) != len(replicas):
            return TopicFault(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index}: replicas {list(replicas)} repeat or are none"
            )
        unknown = [broker for broker in replicas if broker not in live]
        if unknown:
            return TopicFault(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index}: no live broker {unknown[0]}")
    return assignment


def _impossible_count(partitions: int) -> TopicFault:
    return TopicFault(
        ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions asked for, 1 to {PARTITIONS_MAX} are possible"
    )


def _removal_of(image: TopicImage) -> list[Write]:
    name = image.name
    writes: list[Write] = []
    for index in image.partitions:
        writes.append(Delete(paths.partition_state_path(name, index), ANY_VERSION))
        writes.append(Delete(paths.partition_path(name, index), ANY_VERSION))
    writes.append(Delete(paths.topic_partitions_path(name), ANY_VERSION))
    writes.append(Delete(paths.topic_path(name), ANY_VERSION))
    writes.append(Delete(paths.config_path("topics", name), ANY_VERSION))
    writes.append(Delete(paths.delete_topic_path(name), ANY_VERSION))
    return writes


def _fault_of_store(name: str, result: Result) -> TopicFault:
    if result.code == Code.NODE_EXISTS:
        return TopicFault(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
    return TopicFault(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"topic {name!r}: the coordination store said {result.code.name} {result.detail}",
    )
