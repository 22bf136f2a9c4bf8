"""All logs of a broker over all its log directories: loaded, made, deleted, checkpointed, closed.

It owns the logs and decides what becomes of them; the work is done by its parts. Owned by the event loop; what blocks
goes to the background where one is given. It decides nothing about replication.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ottla.core.clock import Background
from ottla.core.disk import Disk, VolumeSpace
from ottla.core.errors import StorageError
from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, Offset, TimestampMs, TopicPartition
from ottla.storage.delayed_removal import DelayedRemoval
from ottla.storage.dir_checkpoints import DirCheckpoints
from ottla.storage.dir_loading import DirPlan, Loader, LoadResult, LoadTask, RunAll, plan_log_dir
from ottla.storage.dir_syncs import at_once
from ottla.storage.duplicate_logs import duplicated_partitions, read_claims, stale_claims
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dirs import (
    LogDirLock,
    is_marked_clean,
    make_durably,
    name_for_deletion,
    name_for_stray,
    scan_log_dir,
    write_clean_shutdown_marker,
)
from ottla.storage.log_loading import NotAPartition, load_log
from ottla.storage.logs_by_dir import LogsByDir, directory_of
from ottla.storage.meta_properties import MetaProperties, claim_log_dir, ignores_case
from ottla.storage.open_files import OpenFiles, StripedOpenFiles
from ottla.storage.partition_folders import PartitionFolders
from ottla.storage.partition_metadata import TopicIdFiles
from ottla.storage.start_note import StartNote, is_same_boot, read_start_note, write_start_note

_ONE_DAY_MS = 24 * 3600 * 1000


class LogManager:
    """The owner of every `Log`. Call `open`, then `load`, and `shutdown` at the end."""

    def __init__(
        self,
        disk: Disk,
        directories: Sequence[str],
        *,
        on_dir_failed: Callable[[str, list[TopicPartition], str], None],
        random_bytes: Callable[[int], bytes],
        background: Background | None = None,
        producer_expiration_ms: int = _ONE_DAY_MS,
        open_files_max: int = 2000,
        call_soon: Callable[[Callable[[], None]], object] = at_once,
    ) -> None:
        self._disk = disk
        self._producer_expiration_ms = producer_expiration_ms
        self._random_bytes = random_bytes
        self._locks: list[LogDirLock] = []
        self._logs = LogsByDir(directories, on_dir_failed=on_dir_failed, background=background)
        self._open_files = StripedOpenFiles(disk, files_max=open_files_max)
        self._checkpoints = DirCheckpoints(disk, self._logs)
        self._folders = PartitionFolders(disk, self._logs, self._checkpoints, call_soon=call_soon)
        self._topic_ids = TopicIdFiles(disk, self._logs)
        self._removal = DelayedRemoval(disk, self._logs)
        self._is_loaded = False
        self._start_note = StartNote()
        self._lossy_dirs: dict[str, None] = {}

    # Logs and directories

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log, if it is here and its directory works."""
        return self._logs.get(topic_partition)

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition's directory failed: requests for it get KAFKA_STORAGE_ERROR."""
        return self._logs.is_offline(topic_partition)

    def partitions(self) -> list[TopicPartition]:
        return [topic_partition for topic_partition, _ in self._logs.items()]

    def logs(self) -> list[Log]:
        return self._logs.logs()

    def logs_in(self, directory: str) -> list[tuple[TopicPartition, Log]]:
        """The logs of a directory that works."""
        return self._logs.logs_in(directory)

    @property
    def online_directories(self) -> list[str]:
        return self._logs.online_directories

    @property
    def offline_directories(self) -> dict[str, str]:
        """Directory -> why it is offline."""
        return self._logs.offline_directories

    def volume_space(self, directory: str) -> VolumeSpace:
        """May block: for a thread."""
        return self._disk.volume_space(directory)

    def fail_log(self, log: Log, error: StorageError) -> None:
        """A log's file operation failed: its directory goes offline, unless the log was deleted meanwhile."""
        self._logs.fail_log(log, error)

    def fail_dir(self, directory: str, reason: str) -> None:
        """Take a directory and its logs out of service, once."""
        self._logs.fail_dir(directory, reason)

    def evict_open_files(self) -> None:
        """The process has no descriptor left; may be called from any thread."""
        self._open_files.evict_all()

    # Starting

    def open(self, properties: MetaProperties, *, with_locks: bool = True) -> None:
        """Lock every directory and make sure that it is ours; LogDirLocked and ForeignLogDir must end the start."""

        def open_dir(directory: str) -> None:
            make_durably(self._disk, directory)
            if with_locks:
                self._locks.append(LogDirLock(directory))
            claim_log_dir(self._disk, directory, properties)

        for _ in self._logs.run_in_each(open_dir):
            pass

    def judge_start(self, note: StartNote, *, is_alone: bool) -> None:
        """Find the directories that may have lost what was not fsynced; after `open`, before `load`.

        Of a broker alone any marker counts: nobody else could have appended since.
        """
        self._start_note = note

        def judge(directory: str) -> None:
            found = read_start_note(self._disk, directory)
            is_clean = is_marked_clean(self._disk, directory, None if is_alone else note.broker_epoch)
            if not is_clean and not is_same_boot(found, note):
                self._lossy_dirs[directory] = None
            elif found.boot_id != note.boot_id:  # before the marker is taken: a kill from now on is no loss
                write_start_note(self._disk, directory, note)

        for _ in self._logs.run_in_each(judge):
            pass

    @property
    def lossy_directories(self) -> list[str]:
        """Those whose machine went down since they were written; until `confirm_loss`."""
        return list(self._lossy_dirs)

    def confirm_loss(self) -> None:
        """Whoever has to know of the loss knows it: from here on the directories count as they are."""
        lossy, self._lossy_dirs = self._lossy_dirs, {}

        def confirm(directory: str) -> None:
            if directory in lossy:
                write_start_note(self._disk, directory, self._start_note)

        for _ in self._logs.run_in_each(confirm):
            pass

    def ignores_case(self) -> bool:
        """Are `A` and `a` one folder in any of the directories? After `open`."""
        return any(found for _, found in self._logs.run_in_each(lambda directory: ignores_case(self._disk, directory)))

    def load(
        self,
        now_ms: TimestampMs,
        *,
        config_of: Callable[[str], LogConfig],
        topic_ids: Mapping[str, bytes] | None = None,
        run_all: RunAll[tuple[OpenFiles, list[LoadTask]], list[LoadResult]] = map,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[str]:
        """Load every log; returns notes for the operator, a line each. DuplicateLog: nothing was touched.

        `topic_ids` are those of all topics by name: they say which of two folders of a partition is out of date.
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
        stripes = self._open_files.split(tasks, lambda task: task.topic_partition)
        failures: dict[str, str] = {}
        for (_, stripe_tasks), results in zip(stripes, run_all(loader.load_stripe, stripes), strict=True):
            for task, result in zip(stripe_tasks, results, strict=True):
                directory = task.path.rpartition("/")[0]
                if isinstance(result, NotAPartition):
                    notes.append(str(result))
                elif isinstance(result, StorageError):
                    self._logs.add_unloaded(directory, task.topic_partition)
                    failures.setdefault(directory, str(result))
                else:
                    self._logs.add(directory, task.topic_partition, result)
                    notes += result.recovery.notes(result.name)
        for directory, reason in failures.items():
            self._logs.fail_dir(directory, reason)
        self._is_loaded = True
        return notes

    def _plan_all(self, topic_ids: Mapping[str, bytes] | None, notes: list[str]) -> list[DirPlan]:
        # All directories are looked at before anything changes: a start that is refused leaves its markers.
        disk = self._disk
        run_in_each = self._logs.run_in_each
        contents = dict(run_in_each(lambda directory: scan_log_dir(disk, directory)))
        duplicated = duplicated_partitions(contents.values())
        if duplicated:
            claims = run_in_each(lambda directory: read_claims(disk, contents[directory], duplicated))
            for topic_partition, path, _ in stale_claims([claim for _, found in claims for claim in found], topic_ids):
                contents[path.rpartition("/")[0]].partitions.remove((topic_partition, path))
                stray = self._folders.rename(topic_partition, path, name_for_stray(topic_partition, self._unique()))
                notes.append(f"{path}: belongs to an older topic of this name, set aside as {stray}")
        return [plan for _, plan in run_in_each(lambda directory: plan_log_dir(disk, directory, contents[directory]))]

    # Making, changing and deleting logs

    def create_log(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, now_ms: TimestampMs
    ) -> Log:
        """Make an empty log in the directory with the fewest; StorageError when none works.

        Nothing may be acknowledged in it before `sync_dirs` is done.
        """
        assert self._logs.get(topic_partition) is None, f"{topic_partition} exists"

        def make_log(path: str, is_new: bool) -> Log:
            self._topic_ids.write(path, topic_id)
            return load_log(
                self._open_files.of(topic_partition),
                path,
                config,
                recovery_point=0,
                log_start_offset=0,
                was_clean=False,
                now_ms=now_ms,
                producer_expiration_ms=self._producer_expiration_ms,
                is_new=is_new,
            )

        return self._folders.create(topic_partition, make_log)

    def sync_dirs(self, on_done: Callable[[], None]) -> None:
        """Fsync the directories with new or renamed folders, in the background; one that fails goes offline.

        Their checkpoints then name no older partition of those names any more.
        """
        self._folders.sync(on_done)

    def topic_id_of(self, topic_partition: TopicPartition) -> bytes | None:
        """The id in the partition's folder; None when its file is missing or malformed."""
        return self._topic_ids.read(self._existing(topic_partition))

    def assign_topic_id(self, topic_partition: TopicPartition, topic_id: bytes) -> None:
        """Give an id to a folder that lost its file."""
        log = self._logs.get(topic_partition)
        if log is None:
            return  # its directory has failed, perhaps when the file was read
        try:
            self._topic_ids.write(log.directory, topic_id)
        except OSError as error:
            self._logs.fail_dir(directory_of(log), f"{topic_partition}: {error}")

    def _existing(self, topic_partition: TopicPartition) -> Log:
        log = self._logs.get(topic_partition)
        assert log is not None, f"{topic_partition} does not exist"
        return log

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
        for log in self._logs.logs():
            log.producer_state.set_expiration_ms(expiration_ms)

    def expire_producers(self, now_ms: TimestampMs) -> None:
        """Forget the producers that were silent for `producer.id.expiration.ms`."""
        for log in self._logs.logs():
            log.producer_state.remove_expired(now_ms)

    def delete_logs(self, topic_partitions: Iterable[TopicPartition], now_ms: TimestampMs) -> None:
        """Partitions are gone at once; their folders keep names that say so until `file.delete.delay.ms` is over.

        They may be created again after `sync_dirs`: before, a crash could give the new ones their offsets.
        """
        for topic_partition in topic_partitions:
            log = self._logs.remove(topic_partition)
            if log is None:
                continue
            renamed = self._take_out(topic_partition, log, name_for_deletion(topic_partition, self._unique()))
            if renamed is not None:
                self._removal.add(log, [renamed], now_ms)

    def set_aside(self, topic_partition: TopicPartition) -> str | None:
        """A folder of another topic that had this name goes out of the way and stays; its new path."""
        log = self._existing(topic_partition)
        self._logs.remove(topic_partition)
        return self._take_out(topic_partition, log, name_for_stray(topic_partition, self._unique()))

    def _take_out(self, topic_partition: TopicPartition, log: Log, new_name: str) -> str | None:
        """The folder of a log that is no longer ours gets another name."""
        # A topic that is made again under the same name must not meet the descriptors of the old one.
        open_files = self._open_files.of(topic_partition)
        for path in log.segment_paths():
            open_files.forget(path)
        return self._folders.rename(topic_partition, log.directory, new_name)

    def _unique(self) -> str:
        return self._random_bytes(16).hex()

    def truncate_log(self, log: Log, offset: Offset, now_ms: TimestampMs) -> None:
        """Drop a log's batches from `offset` on, for a follower whose leader has others. StorageError: the disk fails.

        The recovery point on disk comes down with the log: what is appended in the place of the old is not durable.
        """
        self._cut(log, partial(log.truncate_to, offset, now_ms=now_ms), now_ms)

    def restart_log(self, log: Log, offset: Offset, now_ms: TimestampMs) -> None:
        """Drop all of a log and go on at `offset`, for a follower whose leader does not have what would come next."""
        self._cut(log, partial(log.truncate_fully_and_start_at, offset, now_ms=now_ms), now_ms)

    def _cut(self, log: Log, truncate: Callable[[], list[str]], now_ms: TimestampMs) -> None:
        try:
            removed = truncate()
        except StorageError as error:
            self._logs.fail_log(log, error)
            raise
        self._removal.add(log, removed, now_ms)
        self._checkpoints.write_after_truncation(directory_of(log))

    def await_truncation(self, log: Log, offset: Offset, on_durable: Callable[[], None]) -> None:
        """Call back when a start after a crash would check all from `offset` on, or the directory is offline.

        To be called before what is durable is truncated, and after the log's start has moved down.
        """
        log.lower_recovery_point(offset)
        self._checkpoints.write_after_truncation(directory_of(log), on_durable)

    def delete_expired(
        self, now_ms: TimestampMs, *, high_watermark_of: Callable[[TopicPartition], Offset | None] = lambda _: None
    ) -> None:
        """The retention sweep: segments that are too old or too many.

        What is at or above the high watermark stays; None stands for the log's end.
        """
        for topic_partition, log in self._logs.items():
            if self._logs.get(topic_partition) is None:
                continue  # its directory failed within this sweep
            try:
                removed = log.delete_old_segments(now_ms, high_watermark=high_watermark_of(topic_partition))
            except StorageError as error:
                self._logs.fail_log(log, error)
                continue
            self._removal.add(log, removed, now_ms)

    def remove_later(self, log: Log, paths: Iterable[str], now_ms: TimestampMs) -> None:
        """Remove files that a log has dropped, when `file.delete.delay.ms` is over."""
        self._removal.add(log, paths, now_ms)

    def remove_due(self, now_ms: TimestampMs) -> None:
        """Remove the files and folders whose delay is over."""
        self._removal.remove_due(now_ms)

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Say how far each log is durable; new topic ids become durable with it."""
        self._topic_ids.sync()
        self._checkpoints.write_recovery_points()

    def checkpoint_log_start_offsets(self) -> None:
        """Say where logs start that start within a segment (delete-records)."""
        self._checkpoints.write_log_start_offsets()

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """For replication: how far each partition was committed."""
        self._checkpoints.write_high_watermarks(high_watermarks)

    def read_high_watermarks(self) -> tuple[dict[TopicPartition, Offset], list[str]]:
        """Those of the last checkpoint, and notes. A partition that is not named starts at its log start offset."""
        return self._checkpoints.read_high_watermarks()

    # Stopping

    def shutdown(
        self,
        now_ms: TimestampMs,
        *,
        broker_epoch: BrokerEpoch = NO_BROKER_EPOCH,
        run_all: RunAll[tuple[list[Log], TimestampMs], list[tuple[Log, str]]] = map,
    ) -> None:
        """Make everything durable and leave the clean-shutdown markers, which come last. Blocks.

        Nothing may run in the background any more. A directory that fails on the way gets no marker. What was never
        loaded stays as it is: empty checkpoints and a marker would keep the next start from recovering anything. A
        directory whose loss is not confirmed gets none either, or the next start would not know of the loss.
        """
        self._logs.use_background(None)
        self._checkpoints.abandon_writes()
        if self._is_loaded:
            self._close_logs(now_ms, run_all, broker_epoch)
        for lock in self._locks:
            lock.release()

    def _close_logs(
        self,
        now_ms: TimestampMs,
        run_all: RunAll[tuple[list[Log], TimestampMs], list[tuple[Log, str]]],
        broker_epoch: BrokerEpoch,
    ) -> None:
        self._topic_ids.abandon_syncs()
        stripes = self._open_files.split(self._logs.items(), lambda item: item[0])
        for failures in run_all(_close_all, [([log for _, log in items], now_ms) for _, items in stripes]):
            for log, reason in failures:
                self._logs.fail_dir(directory_of(log), reason)
        self.checkpoint_recovery_points()
        self._checkpoints.write_log_start_offsets()
        self._checkpoints.write_high_watermarks()

        def mark(directory: str) -> None:
            if directory not in self._lossy_dirs:
                write_clean_shutdown_marker(self._disk, directory, broker_epoch)

        for _ in self._logs.run_in_each(mark):
            pass


def _close_all(stripe: tuple[list[Log], TimestampMs]) -> list[tuple[Log, str]]:
    logs, now_ms = stripe
    failures = []
    for log in logs:
        try:
            log.close(now_ms=now_ms)
        except StorageError as error:
            failures.append((log, str(error)))
    return failures
