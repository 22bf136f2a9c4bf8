"""All logs of a broker over all its log directories: loaded, made, deleted, checkpointed, closed.

A directory that fails goes offline with its logs and stays so until the broker starts again; the others go on.
Owned by the event loop; what blocks goes to the background where one is given. It decides nothing about replication.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import urandom
from os.path import dirname
from zlib import crc32

from ottla.core.clock import Background
from ottla.core.disk import Disk, VolumeSpace
from ottla.core.errors import StorageError
from ottla.core.types import Offset, TimestampMs, TopicPartition
from ottla.storage.checkpointed_logs import CheckpointedLogs
from ottla.storage.checkpoints import RECOVERY_POINT_FILE, MalformedCheckpoint
from ottla.storage.delayed_removal import DelayedRemoval, remove_now
from ottla.storage.dir_loading import DirPlan, Loader, LoadTask, RunAll, plan_log_dir
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dirs import (
    LogDirContents,
    LogDirLock,
    name_for_deletion,
    scan_log_dir,
    write_clean_shutdown_marker,
)
from ottla.storage.log_loading import load_log
from ottla.storage.logs_by_dir import directory_of
from ottla.storage.meta_properties import MetaProperties, claim_log_dir
from ottla.storage.name_syncs import NameSyncs, at_once
from ottla.storage.open_files import OpenFiles
from ottla.storage.partition_metadata import PARTITION_METADATA_FILE, read_topic_id, sync_topic_ids, write_topic_id

_LANES = 4
_ONE_DAY_MS = 24 * 3600 * 1000


class DuplicateLog(Exception):
    """Two folders claim to be the same partition; a person has to say which one is right."""


class LogManager(CheckpointedLogs):
    """The owner of every `Log`. Call `open`, then `load`, and `shutdown` at the end."""

    def __init__(
        self,
        disk: Disk,
        directories: Sequence[str],
        *,
        on_dir_failed: Callable[[str, list[TopicPartition], str], None],
        background: Background | None = None,
        producer_expiration_ms: int = _ONE_DAY_MS,
        open_files_max: int = 2000,
        call_soon: Callable[[Callable[[], None]], object] = at_once,
    ) -> None:
        super().__init__(disk, directories, on_dir_failed=on_dir_failed, background=background)
        self._producer_expiration_ms = producer_expiration_ms
        self._locks: list[LogDirLock] = []
        self._lanes = [OpenFiles(disk, files_max=open_files_max // _LANES) for _ in range(_LANES)]
        self._removal = DelayedRemoval()
        self._unsynced_topic_ids: dict[str, list[str]] = {}  # by directory: folders with a new file
        self._name_syncs = NameSyncs(self._sync_names, call_soon=call_soon)

    def let_go_of_open_files(self) -> None:
        """The process has no descriptor left; may be called from any thread."""
        for lane in self._lanes:
            lane.let_go_of_all()

    # Starting

    def open(self, properties: MetaProperties, *, with_locks: bool = True) -> None:
        """Lock every directory and make sure that it is ours; LogDirLocked and ForeignLogDir must end the start."""
        for directory in self.online_directories:
            try:
                self._make_durably(directory)
                if with_locks:
                    self._locks.append(LogDirLock(directory))
                claim_log_dir(self._disk, directory, properties)
            except OSError as error:
                self.fail_dir(directory, str(error))

    def _make_durably(self, directory: str) -> None:
        if self._disk.exists(directory):
            return
        parent = dirname(directory) or "."
        self._make_durably(parent)
        self._disk.make_dirs(directory)
        self._disk.fsync_dir(parent)

    def load(
        self,
        now_ms: TimestampMs,
        *,
        config_of: Callable[[str], LogConfig],
        run_all: RunAll[tuple[OpenFiles, Sequence[LoadTask]], list[Log | StorageError]] = map,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[str]:
        """Load every log; returns what was noteworthy, as lines for people.

        `run_all` is the `map` of a thread pool where recovery shall use several; `on_progress(done, total)` is called
        on its threads. Clean logs need none: loading them is short work in the interpreter, which threads only delay.
        """
        plans = self._plan_all()
        if all(plan.was_clean for plan in plans):
            run_all = map
        notes = [note for plan in plans for note in plan.notes]
        tasks = [task for plan in plans for task in plan.tasks]
        done = 0

        def on_log_loaded() -> None:
            nonlocal done
            done += 1
            on_progress(done, len(tasks))

        loader = Loader(config_of, self._producer_expiration_ms, now_ms, on_log_loaded)
        lanes: list[list[LoadTask]] = [[] for _ in self._lanes]
        for task in tasks:
            lanes[self._lane_number(task.topic_partition)].append(task)
        failures: dict[str, str] = {}
        for lane_tasks, results in zip(
            lanes, run_all(loader.load_lane, list(zip(self._lanes, lanes, strict=True))), strict=True
        ):
            for task, result in zip(lane_tasks, results, strict=True):
                directory = task.path.rpartition("/")[0]
                self._online[directory][task.topic_partition] = None
                if isinstance(result, StorageError):
                    failures.setdefault(directory, str(result))
                    continue
                self._logs[task.topic_partition] = result
                if result.recovery.first_fault is not None:
                    notes.append(
                        f"{result.name}: {result.recovery.bytes_cut} bytes cut in recovery;"
                        f" {result.recovery.first_fault}"
                    )
        for directory, reason in failures.items():
            self.fail_dir(directory, reason)
        return notes

    def _plan_all(self) -> list[DirPlan]:
        # All directories are looked at before anything changes: a start that is refused leaves its markers.
        contents = dict(self._over_directories(lambda directory: scan_log_dir(self._disk, directory)))
        _refuse_duplicates(contents.values())
        plans = self._over_directories(lambda directory: plan_log_dir(self._disk, directory, contents[directory]))
        return [plan for _, plan in plans]

    def _lane_number(self, topic_partition: TopicPartition) -> int:
        return crc32(str(topic_partition).encode()) % len(self._lanes)

    # Making, changing and deleting logs

    def create_log(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, now_ms: TimestampMs
    ) -> Log:
        """Make an empty log in the directory with the fewest; StorageError when none works."""
        return self.create_logs([topic_partition], topic_id, config, now_ms)[0]

    def create_logs(
        self, topic_partitions: Iterable[TopicPartition], topic_id: bytes, config: LogConfig, now_ms: TimestampMs
    ) -> list[Log]:
        """Make the logs of one topic. Nothing may be acknowledged in them before `make_names_durable` is done.

        The file with the topic id becomes durable with the next checkpoint: a start that finds it torn has no id.
        """
        logs = []
        for topic_partition in topic_partitions:
            assert topic_partition not in self._logs, f"{topic_partition} exists"
            directory, log = self._create_anywhere(topic_partition, topic_id, config, now_ms)
            self._name_syncs.note_change(directory)
            logs.append(log)
        return logs

    def make_names_durable(self, on_done: Callable[[], None]) -> None:
        """Fsync the directories with new or renamed folders, in the background; one that fails goes offline."""
        self._name_syncs.when_durable(on_done)

    def _sync_names(self, directory: str, on_done: Callable[[], None]) -> None:
        if directory in self._online:
            self._run(directory, partial(self._disk.fsync_dir, directory), on_done)
        else:
            on_done()

    def _create_anywhere(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, now_ms: TimestampMs
    ) -> tuple[str, Log]:
        while self._online:
            directory = min(self._online, key=lambda path: len(self._online[path]))
            path = f"{directory}/{topic_partition}"
            try:
                is_new = not self._disk.exists(path)
                self._disk.make_dirs(path)
                self._write_topic_id(path, topic_id)
                log = load_log(
                    self._lanes[self._lane_number(topic_partition)],
                    path,
                    config,
                    recovery_point=0,
                    log_start_offset=0,
                    was_clean=False,
                    now_ms=now_ms,
                    producer_expiration_ms=self._producer_expiration_ms,
                    is_new=is_new,
                )
            except (OSError, StorageError) as error:
                self.fail_dir(directory, f"{topic_partition}: {error}")
                continue
            self._online[directory][topic_partition] = None
            self._logs[topic_partition] = log
            return directory, log
        raise StorageError(f"{topic_partition}: no log directory is online")

    def _write_topic_id(self, path: str, topic_id: bytes) -> None:
        write_topic_id(self._disk, path, topic_id)
        self._unsynced_topic_ids.setdefault(path.rpartition("/")[0], []).append(path)

    def topic_id_of(self, topic_partition: TopicPartition) -> bytes | None:
        """What the partition's folder says; None when it says nothing that can be believed."""
        log = self._logs[topic_partition]
        try:
            if not self._disk.exists(f"{log.directory}/{PARTITION_METADATA_FILE}"):
                return None
            return read_topic_id(self._disk, log.directory)
        except MalformedCheckpoint:
            return None
        except OSError as error:
            self.fail_dir(directory_of(log), f"{log.name}: {error}")
            return None

    def assign_topic_id(self, topic_partition: TopicPartition, topic_id: bytes) -> None:
        """Give an id to a folder that lost its file."""
        log = self._logs[topic_partition]
        try:
            self._write_topic_id(log.directory, topic_id)
        except OSError as error:
            self.fail_dir(directory_of(log), f"{topic_partition}: {error}")

    def update_config(self, topic: str, config: LogConfig) -> None:
        """A topic's configuration changed."""
        self.update_configs({topic: config})

    def update_configs(self, configs: Mapping[str, LogConfig]) -> None:
        """The configurations of these topics may have changed."""
        for topic_partition, log in self._logs.items():
            config = configs.get(topic_partition.topic)
            if config is not None and config != log.config:  # what others remember of an equal one stays good
                log.set_config(config)

    def set_producer_expiration_ms(self, expiration_ms: int) -> None:
        self._producer_expiration_ms = expiration_ms
        for log in self._logs.values():
            log.producer_state.set_expiration_ms(expiration_ms)

    def expire_producers(self, now_ms: TimestampMs) -> None:
        """Forget the producers that were silent for `producer.id.expiration.ms`."""
        for log in self._logs.values():
            log.producer_state.remove_expired(now_ms)

    def delete_log(self, topic_partition: TopicPartition, now_ms: TimestampMs) -> None:
        """See `delete_logs`."""
        self.delete_logs([topic_partition], now_ms)

    def delete_logs(self, topic_partitions: Iterable[TopicPartition], now_ms: TimestampMs) -> None:
        """Partitions are gone at once; their folders keep names that say so until `file.delete.delay.ms` is over.

        The new names are durable after `make_names_durable`.
        """
        for topic_partition in topic_partitions:
            log = self._logs.pop(topic_partition, None)
            self._offline_partitions.discard(topic_partition)
            if log is None:
                continue
            directory = directory_of(log)
            self._online[directory].pop(topic_partition, None)
            doomed = f"{directory}/{name_for_deletion(topic_partition, urandom(16).hex())}"
            try:
                self._forget_open_files(topic_partition, log)
                self._disk.rename(log.directory, doomed)
            except OSError as error:
                self.fail_dir(directory, f"{topic_partition}: {error}")
                continue
            self._name_syncs.note_change(directory)
            self._removal.add(doomed, directory=directory, due_ms=now_ms + log.config.file_delete_delay_ms)

    def _forget_open_files(self, topic_partition: TopicPartition, log: Log) -> None:
        # A topic that is made again under the same name must not meet the descriptors of the old one.
        open_files = self._lanes[self._lane_number(topic_partition)]
        for path in log.segment_paths():
            open_files.forget(path)

    def truncate_log(self, log: Log, offset: Offset, now_ms: TimestampMs) -> None:
        """Drop a log's batches from `offset` on, for a follower whose leader has others. StorageError: the disk fails.

        The recovery point on disk comes down with the log: what is appended in the place of the old is not durable.
        """
        try:
            self.remove_later(log, log.truncate_to(offset, now_ms=now_ms), now_ms)
        except StorageError as error:
            self.fail_log(log, error)
            raise
        self._checkpoint_dir(directory_of(log), RECOVERY_POINT_FILE, lambda each: each.recovery_point)

    def delete_expired(
        self, now_ms: TimestampMs, *, high_watermark_of: Callable[[TopicPartition], Offset | None] = lambda _: None
    ) -> None:
        """The retention sweep: segments that are too old or too many.

        What is at or above the high watermark stays; None stands for the log's end.
        """
        for topic_partition, log in list(self._logs.items()):
            if topic_partition not in self._logs:
                continue  # its directory failed within this sweep
            try:
                removed = log.delete_old_segments(now_ms, high_watermark=high_watermark_of(topic_partition))
            except StorageError as error:
                self.fail_log(log, error)
                continue
            self.remove_later(log, removed, now_ms)

    def remove_later(self, log: Log, paths: Iterable[str], now_ms: TimestampMs) -> None:
        """Remove files that a log let go, when `file.delete.delay.ms` is over."""
        directory = directory_of(log)
        due_ms = now_ms + log.config.file_delete_delay_ms
        for path in paths:
            self._removal.add(path, directory=directory, due_ms=due_ms)

    def remove_due(self, now_ms: TimestampMs) -> None:
        """Remove the files and folders whose delay is over."""
        for directory, path in self._removal.take_due(now_ms):
            if directory in self._online:
                self._run(directory, partial(remove_now, self._disk, path))

    def checkpoint_recovery_points(self) -> None:
        """Say how far each log is durable; new topic ids become durable with it."""
        for directory in self.online_directories:
            folders = self._unsynced_topic_ids.pop(directory, None)
            if folders:
                self._run(directory, partial(sync_topic_ids, self._disk, folders))
        super().checkpoint_recovery_points()

    def volume_space(self, directory: str) -> VolumeSpace:
        """May block: for a thread."""
        return self._disk.volume_space(directory)

    # Stopping

    def shutdown(
        self, now_ms: TimestampMs, *, run_all: RunAll[tuple[list[Log], TimestampMs], list[tuple[Log, str]]] = map
    ) -> None:
        """Make everything durable and leave the clean-shutdown markers, which come last. Blocks.

        Nothing may run in the background any more. A directory that fails on the way gets no marker.
        """
        self._end_background()
        lanes: list[list[Log]] = [[] for _ in self._lanes]
        for topic_partition, log in self._logs.items():
            lanes[self._lane_number(topic_partition)].append(log)
        for failures in run_all(_close_all, [(lane, now_ms) for lane in lanes]):
            for log, reason in failures:
                self.fail_dir(directory_of(log), reason)
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        for _ in self._over_directories(lambda directory: write_clean_shutdown_marker(self._disk, directory)):
            pass
        for lock in self._locks:
            lock.release()


def _close_all(lane: tuple[list[Log], TimestampMs]) -> list[tuple[Log, str]]:
    logs, now_ms = lane
    failures = []
    for log in logs:
        try:
            log.close(now_ms=now_ms)
        except StorageError as error:
            failures.append((log, str(error)))
    return failures


def _refuse_duplicates(contents: Iterable[LogDirContents]) -> None:
    paths: dict[TopicPartition, str] = {}
    for directory_contents in contents:
        for topic_partition, path in directory_contents.partitions:
            other = paths.setdefault(topic_partition, path)
            if other is not path:
                raise DuplicateLog(
                    f"{topic_partition} is in {other} and in {path}; move the folder that is out of date away"
                )
