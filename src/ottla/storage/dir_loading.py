"""Loading the logs of a log directory: what its checkpoints and marker say about each, then each log.

Logs of different stripes of the open files may be loaded side by side, on a thread for each stripe.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias, TypeVar

from ottla.core.disk import Disk
from ottla.core.errors import StorageError
from ottla.core.types import Offset, TimestampMs, TopicPartition
from ottla.storage.checkpoints import (
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpoint,
    read_offsets,
)
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dirs import LogDirContents, take_clean_shutdown_marker
from ottla.storage.log_loading import NotAPartition, load_log
from ottla.storage.open_files import OpenFiles

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# `map`, or the `map` of a thread pool.
RunAll: TypeAlias = Callable[[Callable[[_Item], _Result], Iterable[_Item]], Iterable[_Result]]

LoadResult: TypeAlias = Log | StorageError | NotAPartition


class LoadTask(NamedTuple):
    """One log to be loaded."""

    topic_partition: TopicPartition
    path: str
    recovery_point: Offset
    log_start_offset: Offset
    was_clean: bool


class DirPlan(NamedTuple):
    """What there is to load in one directory, and notes for the operator."""

    tasks: list[LoadTask]
    was_clean: bool
    notes: list[str]


def plan_log_dir(disk: Disk, directory: str, contents: LogDirContents) -> DirPlan:
    """Read a directory's own files and finish deletions that were begun. OSError: the disk fails.

    The clean-shutdown marker is taken: from here on a crash means recovery.
    """
    notes = [f"{path}: not the folder of a partition, left alone" for path in contents.malformed]
    notes += [f"{path}: set aside at an earlier start; remove it when nobody needs it" for path in contents.strays]
    for path in contents.to_be_deleted:
        disk.remove_tree(path)
    was_clean = take_clean_shutdown_marker(disk, directory)
    # No recovery point means 0, the first segment: a malformed file makes everything be checked, not nothing.
    recovery_points = {} if was_clean else _read_or_note(disk, f"{directory}/{RECOVERY_POINT_FILE}", notes)
    start_offsets = _read_or_note(disk, f"{directory}/{LOG_START_OFFSET_FILE}", notes)
    tasks = [
        LoadTask(
            topic_partition,
            path,
            recovery_points.get(topic_partition, 0),
            start_offsets.get(topic_partition, 0),
            was_clean,
        )
        for topic_partition, path in contents.partitions
    ]
    return DirPlan(tasks, was_clean, notes)


def _read_or_note(disk: Disk, path: str, notes: list[str]) -> dict[TopicPartition, Offset]:
    try:
        return read_offsets(disk, path)
    except MalformedCheckpoint as error:
        notes.append(f"{error}; rebuilding from the logs")
        return {}


class Loader(NamedTuple):
    """What all loads of one start have in common."""

    config_of: Callable[[str], LogConfig]
    producer_expiration_ms: int
    now_ms: TimestampMs
    on_log_loaded: Callable[[], None]

    def load_stripe(self, stripe: tuple[OpenFiles, list[LoadTask]]) -> list[LoadResult]:
        """The logs of one stripe, in the order of their tasks; a failing disk is the result of its task."""
        open_files, tasks = stripe
        loaded: list[LoadResult] = []
        for task in tasks:
            try:
                loaded.append(
                    load_log(
                        open_files,
                        task.path,
                        self.config_of(task.topic_partition.topic),
                        recovery_point=task.recovery_point,
                        log_start_offset=task.log_start_offset,
                        was_clean=task.was_clean,
                        now_ms=self.now_ms,
                        producer_expiration_ms=self.producer_expiration_ms,
                        is_found=True,
                    )
                )
            except (StorageError, NotAPartition) as error:
                loaded.append(error)
            self.on_log_loaded()
        return loaded
