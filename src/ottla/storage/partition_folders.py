"""The folders of partitions in the log directories: made, renamed, and durable before anything relies on them.

What is inside a folder is its log's business.
"""

from collections.abc import Callable
from functools import partial

from ottla.core.disk import DirEntry, Disk
from ottla.core.errors import StorageError
from ottla.core.types import TopicPartition
from ottla.storage.dir_checkpoints import DirCheckpoints
from ottla.storage.dir_syncs import DirSyncs, OnDone
from ottla.storage.log import Log
from ottla.storage.logs_by_dir import LogsByDir
from ottla.storage.segment_files import is_partition_folder


class PartitionFolders:
    """Owned by the log manager; event loop only.

    After a folder has changed, the checkpoints of its directory may still have offsets of an older
    partition of that name: `sync` ends when they are gone too.
    """

    __slots__ = ("_checkpoints", "_dir_syncs", "_disk", "_logs")

    def __init__(
        self, disk: Disk, logs: LogsByDir, checkpoints: DirCheckpoints, *, call_soon: Callable[[OnDone], object]
    ) -> None:
        self._disk = disk
        self._logs = logs
        self._checkpoints = checkpoints
        self._dir_syncs = DirSyncs(self._sync, call_soon=call_soon)

    def create(self, topic_partition: TopicPartition, make_log: Callable[[str, bool], Log]) -> Log:
        """Have a log made in the directory with the fewest; StorageError when none works.

        `make_log(path, is_new)` may raise OSError or StorageError: the directory fails, and another one is tried.
        """
        in_the_way: list[str] = []
        while directories := [
            each for each in self._logs.online_directories if f"{each}/{topic_partition}" not in in_the_way
        ]:
            directory = min(directories, key=self._logs.count_in)
            path = f"{directory}/{topic_partition}"
            try:
                entries = self._entries_of(path)
                if entries is None:
                    in_the_way.append(path)
                    continue
                self._disk.make_dirs(path)
                log = make_log(path, not entries)
            except (OSError, StorageError) as error:
                self._logs.fail_dir(directory, f"{topic_partition}: {error}")
                continue
            self._logs.add(directory, topic_partition, log)
            self._note_change(directory, topic_partition)
            return log
        if in_the_way:
            raise StorageError(f"{', '.join(in_the_way)}: in the way, and not a partition's folder; move it away")
        raise StorageError(f"{topic_partition}: no log directory is online")

    def _entries_of(self, path: str) -> list[DirEntry] | None:
        """What a partition's folder has in it now; None when the name is taken by something else."""
        if not self._disk.exists(path):
            return []
        try:
            entries = self._disk.list(path)
        except (NotADirectoryError, FileNotFoundError):
            return None  # a file, or a link to nowhere: no fault of the log directory
        return entries if not entries or is_partition_folder(entries) else None

    def rename(self, topic_partition: TopicPartition, path: str, new_name: str) -> str | None:
        """The folder's new path; None when its directory fails over it."""
        directory = path.rpartition("/")[0]
        new_path = f"{directory}/{new_name}"
        try:
            self._disk.rename(path, new_path)
        except OSError as error:
            self._logs.fail_dir(directory, f"{topic_partition}: {error}")
            return None
        self._note_change(directory, topic_partition)
        return new_path

    def _note_change(self, directory: str, topic_partition: TopicPartition) -> None:
        self._checkpoints.mark_stale(directory, topic_partition)
        self._dir_syncs.note_change(directory)

    def sync(self, on_done: OnDone) -> None:
        """Fsync the directories with new or renamed folders, in the background; one that fails goes offline."""
        self._dir_syncs.when_synced(on_done)

    def _sync(self, directory: str, on_done: OnDone) -> None:
        if self._logs.is_online(directory):
            after = partial(self._checkpoints.rewrite_stale, directory, on_done)
            self._logs.run(directory, partial(self._disk.fsync_dir, directory), after)
        else:
            on_done()
