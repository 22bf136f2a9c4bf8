"""Topics are made and removed here: each request is checked, decided, written into the store, and then applied.

Owned by the controller; event loop only. What is in the store is the truth: a topic is applied to the broker only
after its nodes are committed, and a deletion is noted there before the first file goes, so that a crash in between is
finished by the next start.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.controller.added_partitions import AddedPartitions
from ottla.controller.applier import TopicApplier
from ottla.controller.assignments import (
    PARTITIONS_MAX,
    check_new_assignment,
    check_replication_factor,
    impossible_count,
)
from ottla.controller.placement import Assignment, place
from ottla.controller.topic_faults import TopicFault, fault_of_store, not_hosted, topic_exists
from ottla.controller.topic_names import INTERNAL_TOPICS, colliding, metric_name, problem_with
from ottla.controller.topic_nodes import creation_of, removal_of
from ottla.coordination import paths
from ottla.coordination.node_json import encode_uuid
from ottla.coordination.store import Code, Result, Store
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.config.definition import ConfigError
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId

BY_DEFAULT = -1


class NewTopic(NamedTuple):
    """What somebody asks for; -1 leaves a count to the broker's config."""

    name: str
    partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignment: Mapping[int, tuple[BrokerId, ...]] | None = None
    configs: Mapping[str, str | None] = {}


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
        ignores_case: bool = False,
    ) -> None:
        """`ignores_case`: the log directories' file system takes `A` and `a` for one name."""
        self._store = store
        self._config = config
        self._applier = applier
        self._random_bytes = random_bytes
        self._live_brokers = live_brokers
        self._controller_epoch = controller_epoch
        self.images: dict[str, TopicImage] = {}
        self._being_created: dict[str, int] = {}  # names on their way into the store, with how many ask for each
        self._being_deleted: set[str] = set()
        self._ignores_case = ignores_case
        self._taken_names: dict[str, str] = {}  # in metrics and on disk, with the topic that has each or is about to
        self.added_partitions = AddedPartitions(
            store,
            applier,
            self.images,
            self._being_deleted,
            random_bytes=random_bytes,
            live_brokers=live_brokers,
            controller_epoch=controller_epoch,
        )

    def put_loaded(self, image: TopicImage) -> None:
        """A topic that the store had at the start."""
        self.images[image.name] = image
        self._take_names(image.name)

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
        self._take_names(name)

        def on_written(result: Result) -> None:
            self._being_created[name] -= 1
            if not self._being_created[name]:
                del self._being_created[name]
            if not result.is_ok:
                self._maybe_free_name(name)
                on_done(fault_of_store(name, result))
                return
            self.images[name] = image
            self._applier.apply_topic(image, lambda: on_done(image))

        self._store.multi(creation_of(image, self._controller_epoch()), on_written)

    def _maybe_free_name(self, name: str) -> None:
        if name not in self.images and name not in self._being_created:
            for taken in self._names_of(name):
                self._taken_names.pop(taken, None)

    def _take_names(self, name: str) -> None:
        for taken in self._names_of(name):
            self._taken_names[taken] = name

    def _names_of(self, name: str) -> list[str]:
        names = [metric_name(name)]
        if self._ignores_case:
            names.append("/" + name.lower())  # its folders; no metric has a slash
        return names

    def delete(self, name: str, on_done: Callable[[TopicFault | None], None]) -> None:
        """Delete a topic with its data; `on_done` hears of it when its files are out of the way."""
        image = self.images.get(name)
        if image is None or name in self._being_deleted:
            on_done(not_hosted())
            return
        if not self._config.get_bool("delete.topic.enable"):
            on_done(TopicFault(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled."))
            return
        if name in INTERNAL_TOPICS:
            on_done(TopicFault(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is the broker's own"))
            return
        self._being_deleted.add(name)

        def on_noted(result: Result) -> None:
            if not result.is_ok and result.code != Code.NODE_EXISTS:
                self._being_deleted.discard(name)
                on_done(fault_of_store(name, result))
                return
            self.finish_deletion(self.images.get(name, image), on_done)  # it may have grown meanwhile

        self._store.create(paths.delete_topic_path(name), b"", on_noted)

    def finish_deletion(self, image: TopicImage, on_done: Callable[[TopicFault | None], None]) -> None:
        """Remove the files, then the nodes; also called at the start for what a crash left half done."""
        name = image.name

        def on_forgotten(result: Result) -> None:
            self._being_deleted.discard(name)
            self.images.pop(name, None)
            self._maybe_free_name(name)
            on_done(None if result.is_ok else fault_of_store(name, result))

        self._applier.remove_topic(name, lambda: self._store.multi(removal_of(image), on_forgotten))

    def find(self, name: str) -> TopicImage | None:
        """The topic, unless it is on its way out."""
        return None if name in self._being_deleted else self.images.get(name)

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's config has changed."""
        self._config = config

    def config_of(self, image: TopicImage) -> TopicConfig:
        """All settings of a topic, with where each comes from."""
        return TopicConfig.of_stored(image.configs, self._config)[0]

    def _decide(self, new: NewTopic) -> TopicImage | TopicFault:
        name = new.name
        problem = problem_with(name)
        if problem is not None:
            return TopicFault(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name in self.images:
            return topic_exists(name)
        for taken in self._names_of(name):
            other = self._taken_names.get(taken, name)
            if other != name:
                return TopicFault(ErrorCode.INVALID_TOPIC_EXCEPTION, colliding(name, other))
        configs = _given(new.configs)
        if isinstance(configs, TopicFault):
            return configs
        try:
            if configs:
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
            return _given_assignment(new, live)
        partitions = new.partitions
        if partitions == BY_DEFAULT:
            partitions = self._config.get_int("num.partitions")
        replication_factor = new.replication_factor
        if replication_factor == BY_DEFAULT:
            replication_factor = self._config.get_int("default.replication.factor")
        if not 0 < partitions <= PARTITIONS_MAX:
            return impossible_count(partitions)
        fault = check_replication_factor(replication_factor, live)
        if fault is not None:
            return fault
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


def _given(configs: Mapping[str, str | None]) -> dict[str, str] | TopicFault:
    missing = [name for name, value in configs.items() if value is None]
    if missing:
        return TopicFault(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}")
    return {name: value for name, value in configs.items() if value is not None}


def _given_assignment(new: NewTopic, live: list[BrokerId]) -> Assignment | TopicFault:
    for what, count in (("replication factor", new.replication_factor), ("numPartitions", new.partitions)):
        if count != BY_DEFAULT:
            return TopicFault(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    assert new.assignment is not None
    assignment = dict(sorted(new.assignment.items()))
    return check_new_assignment(assignment, live) or assignment
