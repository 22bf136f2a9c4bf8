"""All logs of a broker over all its log directories: loaded, made, deleted, checkpointed, closed.

A directory that fails goes offline with its logs and stays so until the broker starts again; the others go on.
Owned by the event loop; what blocks goes to the background where one is given. It decides nothing about replication.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import urandom
from zlib import crc32

from ottla.core.clock import Background
from ottla.core.disk import Disk, VolumeSpace
from ottla.core.errors import StorageError
from ottla.core.types import Offset, TimestampMs, TopicPartition
from ottla.storage.checkpointed_logs import CheckpointedLogs
from ottla.storage.checkpoints import HIGH_WATERMARK_FILE, RECOVERY_POINT_FILE
from ottla.storage.delayed_removal import DelayedRemoval, remove_now
from ottla.storage.dir_loading import DirPlan, Loader, LoadResult, LoadTask, RunAll, plan_log_dir
from ottla.storage.duplicate_logs import duplicated_partitions, read_claims, stale_claims
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dirs import (
    LogDirLock,
    make_durably,
    name_for_deletion,
    name_for_stray,
    scan_log_dir,
    write_clean_shutdown_marker,
)
from ottla.storage.log_loading import NotAPartition, load_log
from ottla.storage.logs_by_dir import directory_of, topic_partition_of
from ottla.storage.meta_properties import MetaProperties, claim_log_dir, ignores_case
from ottla.storage.name_syncs import NameSyncs, at_once
from ottla.storage.open_files import OpenFiles
from ottla.storage.partition_metadata import (
    UnsyncedTopicIds,
    read_topic_id_or_none,
    sync_topic_ids,
    write_topic_id,
)
from ottla.storage.segment_files import is_partition_folder

_LANES = 4
_ONE_DAY_MS = 24 * 3600 * 1000


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
        self._unsynced_topic_ids = UnsyncedTopicIds()
        self._name_syncs = NameSyncs(self._sync_names, call_soon=call_soon)
        self._is_loaded = False

    def let_go_of_open_files(self) -> None:
        """The process has no descriptor left; may be called from any thread."""
        for lane in self._lanes:
            lane.let_go_of_all()

    # Starting

    def open(self, properties: MetaProperties, *, with_locks: bool = True) -> None:
        """Lock every directory and make sure that it is ours; LogDirLocked and ForeignLogDir must end the start."""
        for directory in self.online_directories:
            try:
                make_durably(self._disk, directory)
                if with_locks:
                    self._locks.append(LogDirLock(directory))
                claim_log_dir(self._disk, directory, properties)
            except OSError as error:
                self.fail_dir(directory, str(error))

    def ignores_case(self) -> bool:
        """Are `A` and `a` one folder in any of the directories? After `open`."""
        return any(found for _, found in self._over_directories(lambda directory: ignores_case(self._disk, directory)))

    def load(
        self,
        now_ms: TimestampMs,
        *,
        config_of: Callable[[str], LogConfig],
        topic_ids: Mapping[str, bytes] | None = None,
        run_all: RunAll[tuple[OpenFiles, Sequence[LoadTask]], list[LoadResult]] = map,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[str]:
        """Load every log; returns what was noteworthy, as lines for people. DuplicateLog: nothing was touched.

        `topic_ids` are those of all topics by name: they tell which of two folders of a partition is out of date.
        `run_all` is the `map` of a thread pool where recovery shall use several; `on_progress(done, total)` is called
        on its threads. Clean logs need none: loading them is short work in the interpreter, which threads only delay.
        """
        notes: list[str] = []
        plans = self._plan_all(topic_ids, notes)
        if all(plan.was_clean for plan in plans):
            run_all = map
        notes += [note for plan in plans for note in plan.notes]
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
                if isinstance(result, NotAPartition):
                    notes.append(str(result))
                    continue
                self._online[directory][task.topic_partition] = None
                if isinstance(result, StorageError):
                    failures.setdefault(directory, str(result))
                    continue
                self._logs[task.topic_partition] = result
                notes += result.recovery.notes(result.name)
        for directory, reason in failures.items():
            self.fail_dir(directory, reason)
        self._is_loaded = True
        return notes

    def _plan_all(self, topic_ids: Mapping[str, bytes] | None, notes: list[str]) -> list[DirPlan]:
        # All directories are looked at before anything changes: a start that is refused leaves its markers.
        disk = self._disk
        contents = dict(self._over_directories(lambda directory: scan_log_dir(disk, directory)))
        duplicated = duplicated_partitions(contents.values())
        if duplicated:
            claims = self._over_directories(lambda directory: read_claims(disk, contents[directory], duplicated))
            for topic_partition, path, _ in stale_claims([claim for _, found in claims for claim in found], topic_ids):
                contents[path.rpartition("/")[0]].partitions.remove((topic_partition, path))
                stray = self._rename_folder(topic_partition, path, name_for_stray(topic_partition, urandom(16).hex()))
                notes.append(f"{path}: belongs to an older topic of this name, set aside as {stray}")
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
        """Fsync the directories with new or renamed folders, in the background; one that fails goes offline.

        Their checkpoints then say nothing any more of whoever had those names before.
        """
        self._name_syncs.when_durable(on_done)

    def _sync_names(self, directory: str, on_done: Callable[[], None]) -> None:
        if directory in self._online:
            after = partial(self._forget_offsets, directory, on_done)
            self._run(directory, partial(self._disk.fsync_dir, directory), after)
        else:
            on_done()

    def _create_anywhere(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, now_ms: TimestampMs
    ) -> tuple[str, Log]:
        in_the_way: list[str] = []
        while directories := [each for each in self._online if f"{each}/{topic_partition}" not in in_the_way]:
            directory = min(directories, key=lambda each: len(self._online[each]))
            path = f"{directory}/{topic_partition}"
            try:
                entries = self._disk.list(path) if self._disk.exists(path) else []
                if entries and not is_partition_folder(entries):
                    in_the_way.append(path)  # somebody else's: nothing is written into it
                    continue
                is_new = not entries
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
            self._note_forgotten(directory, topic_partition)
            return directory, log
        if in_the_way:
            raise StorageError(f"{', '.join(in_the_way)}: in the way, and no folder of a partition; move it away")
        raise StorageError(f"{topic_partition}: no log directory is online")

    def _write_topic_id(self, path: str, topic_id: bytes) -> None:
        write_topic_id(self._disk, path, topic_id)
        self._unsynced_topic_ids.add(path)

    def topic_id_of(self, topic_partition: TopicPartition) -> bytes | None:
        """What the partition's folder says; None when it says nothing that can be believed."""
        log = self._logs[topic_partition]
        try:
            return read_topic_id_or_none(self._disk, log.directory)
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

        They may be made anew after `make_names_durable`: before, a crash could give the new ones their offsets.
        """
        for topic_partition in topic_partitions:
            log = self._logs.get(topic_partition)
            self._offline_partitions.discard(topic_partition)
            if log is None:
                continue
            doomed = self._take_out(log, name_for_deletion(topic_partition, urandom(16).hex()))
            if doomed is not None:
                due_ms = now_ms + log.config.file_delete_delay_ms
                self._removal.add(doomed, directory=directory_of(log), due_ms=due_ms)

    def set_aside(self, topic_partition: TopicPartition) -> str | None:
        """A folder of another topic that had this name goes out of the way and stays; its new path."""
        return self._take_out(self._logs[topic_partition], name_for_stray(topic_partition, urandom(16).hex()))

    def _take_out(self, log: Log, new_name: str) -> str | None:
        """A log is no longer ours, and its folder gets another name."""
        topic_partition = topic_partition_of(log)
        del self._logs[topic_partition]
        self._online[directory_of(log)].pop(topic_partition, None)
        self._forget_open_files(topic_partition, log)
        return self._rename_folder(topic_partition, log.directory, new_name)

    def _rename_folder(self, topic_partition: TopicPartition, path: str, new_name: str) -> str | None:
        """The folder's new path; None when its directory fails over it."""
        directory = path.rpartition("/")[0]
        new_path = f"{directory}/{new_name}"
        try:
            self._disk.rename(path, new_path)
        except OSError as error:
            self.fail_dir(directory, f"{topic_partition}: {error}")
            return None
        self._note_forgotten(directory, topic_partition)
        self._name_syncs.note_change(directory)
        return new_path

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
        self._checkpoint_dir(directory_of(log), RECOVERY_POINT_FILE)

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
        topic_ids = self._unsynced_topic_ids
        for directory in self.online_directories:
            folders = topic_ids.begin(directory)
            if folders:
                self._run(directory, partial(sync_topic_ids, self._disk, folders), partial(topic_ids.finish, directory))
        super().checkpoint_recovery_points()

    def volume_space(self, directory: str) -> VolumeSpace:
        """May block: for a thread."""
        return self._disk.volume_space(directory)

    # Stopping

    def shutdown(
        self, now_ms: TimestampMs, *, run_all: RunAll[tuple[list[Log], TimestampMs], list[tuple[Log, str]]] = map
    ) -> None:
        """Make everything durable and leave the clean-shutdown markers, which come last. Blocks.

        Nothing may run in the background any more. A directory that fails on the way gets no marker. What was never
        loaded stays as it is: empty checkpoints and a marker would tell the next start that there is nothing to mend.
        """
        self._end_background()
        if self._is_loaded:
            self._close_logs(now_ms, run_all)
        for lock in self._locks:
            lock.release()

    def _close_logs(
        self, now_ms: TimestampMs, run_all: RunAll[tuple[list[Log], TimestampMs], list[tuple[Log, str]]]
    ) -> None:
        self._unsynced_topic_ids.give_back()
        lanes: list[list[Log]] = [[] for _ in self._lanes]
        for topic_partition, log in self._logs.items():
            lanes[self._lane_number(topic_partition)].append(log)
        for failures in run_all(_close_all, [(lane, now_ms) for lane in lanes]):
            for log, reason in failures:
                self.fail_dir(directory_of(log), reason)
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        if self._high_watermarks:
            self._checkpoint(HIGH_WATERMARK_FILE)
        for _ in self._over_directories(lambda directory: write_clean_shutdown_marker(self._disk, directory)):
            pass


def _close_all(lane: tuple[list[Log], TimestampMs]) -> list[tuple[Log, str]]:
    logs, now_ms = lane
    failures = []
    for log in logs:
        try:
            log.close(now_ms=now_ms)
        except StorageError as error:
            failures.append((log, str(error)))
    return failures
