"""More partitions for a topic that exists: decided on what the store says, written under that version, then applied.

Owned by `Topics`, whose images it shares; event loop only. An addition that lost against another one is decided anew.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ottla.controller.applier import TopicApplier
from ottla.controller.assignments import (
    PARTITIONS_MAX,
    check_added_assignment,
    check_replication_factor,
    impossible_count,
)
from ottla.controller.placement import Assignment, place
from ottla.controller.topic_faults import TopicFault, fault_of_store, not_hosted
from ottla.controller.topic_names import INTERNAL_TOPICS
from ottla.controller.topic_nodes import addition_of
from ottla.coordination import paths
from ottla.coordination.node_json import MalformedNodeError
from ottla.coordination.store import Code, Result, Store
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId

# Each lost try means that another addition won, so even this many is more than is ever seen.
_TRIES_MAX = 10


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have in all, and where the new ones go if that is not left to the broker."""

    topic: str
    total: int
    assignments: Sequence[tuple[BrokerId, ...]] | None = None


OnAdded = Callable[["TopicImage | TopicFault"], None]


class AddedPartitions:
    """Additions of partitions; `images` and `being_deleted` belong to `Topics`."""

    def __init__(
        self,
        store: Store,
        applier: TopicApplier,
        images: dict[str, TopicImage],
        being_deleted: Collection[str],
        *,
        random_bytes: Callable[[int], bytes],
        live_brokers: Callable[[], list[BrokerId]],
        controller_epoch: Callable[[], int],
    ) -> None:
        self._store = store
        self._applier = applier
        self._images = images
        self._being_deleted = being_deleted
        self._random_bytes = random_bytes
        self._live_brokers = live_brokers
        self._controller_epoch = controller_epoch

    def add(self, wanted: NewPartitions, on_done: OnAdded, *, validate_only: bool = False) -> None:
        """Let a topic grow; `on_done` hears of it when clients can use the new partitions."""
        name = wanted.topic
        if not self._is_there(name):
            on_done(not_hosted())
        elif name in INTERNAL_TOPICS:
            on_done(
                TopicFault(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"{name!r} is the broker's own: its keys are spread over the partitions that it was made with",
                )
            )
        else:
            self._try(wanted, on_done, validate_only=validate_only, tries_left=_TRIES_MAX)

    def _is_there(self, name: str) -> bool:
        return name in self._images and name not in self._being_deleted

    def _try(self, wanted: NewPartitions, on_done: OnAdded, *, validate_only: bool, tries_left: int) -> None:
        name = wanted.topic

        def on_read(result: Result) -> None:
            if result.code == Code.NO_NODE or not self._is_there(name):
                on_done(not_hosted())
                return
            if not result.is_ok:
                on_done(fault_of_store(name, result))
                return
            try:
                assigned = paths.decode_topic(result.path, result.value)
            except MalformedNodeError as error:
                on_done(TopicFault(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
                return
            added = self._decide(wanted, assigned)
            if isinstance(added, TopicFault):
                on_done(added)
            elif validate_only:
                on_done(self._images[name])
            else:
                assert result.stat is not None
                self._write(wanted, assigned, added, on_done, version=result.stat.version, tries_left=tries_left)

        self._store.get(paths.topic_path(name), on_read)

    def _write(
        self,
        wanted: NewPartitions,
        assigned: paths.TopicAssignment,
        added: dict[int, PartitionState],
        on_done: OnAdded,
        *,
        version: int,
        tries_left: int,
    ) -> None:
        name = wanted.topic

        def on_written(result: Result) -> None:
            if result.code == Code.BAD_VERSION and tries_left > 1:
                self._try(wanted, on_done, validate_only=False, tries_left=tries_left - 1)
                return
            if result.code == Code.NO_NODE or name not in self._images:
                on_done(not_hosted())
                return
            if not result.is_ok:
                on_done(fault_of_store(name, result))
                return
            known = self._images[name]
            image = known._replace(partitions={**known.partitions, **added})
            self._images[name] = image
            self._applier.apply_partitions(image, list(added), lambda: on_done(image))

        epoch = self._controller_epoch()
        self._store.multi(addition_of(name, assigned, added, controller_epoch=epoch, version=version), on_written)

    def _decide(self, wanted: NewPartitions, assigned: paths.TopicAssignment) -> dict[int, PartitionState] | TopicFault:
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
        live = self._live_brokers()
        first = next(iter(assigned.partitions.values()), ())
        if assignments is not None:
            added = {present + number: tuple(replicas) for number, replicas in enumerate(assignments)}
            fault = check_added_assignment(
                added, live, expected_partitions=total - present, replication_factor=len(first)
            )
        else:
            fault = check_replication_factor(len(first), live)
            added = self._place(live, present, total, first) if fault is None else {}
        if fault is not None:
            return fault
        return {index: PartitionState(replicas[0], 0, replicas, replicas) for index, replicas in added.items()}

    def _place(self, live: list[BrokerId], present: int, total: int, first: tuple[BrokerId, ...]) -> Assignment:
        """Go on round the brokers where the topic's first partition began, as if it had been made with all of them."""
        ring = sorted(live)
        (shift,) = self._random_bytes(1)
        placed = place(
            ring,
            partitions=total,
            replication_factor=len(first),
            first_broker=ring.index(first[0]) if first[0] in ring else 0,
            first_shift=shift % len(ring),
        )
        return {index: placed[index] for index in range(present, total)}
