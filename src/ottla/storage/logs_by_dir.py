"""The log directories of a broker: which of them work, which log is in which, and how work on one is run.

A directory that fails goes offline with its logs and stays so until the broker starts again; the others go on. Knows
nothing of what the work is.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ottla.core.clock import Background
from ottla.core.errors import StorageError
from ottla.core.types import TopicPartition
from ottla.storage.log import Log

_Result = TypeVar("_Result")


class LogsByDir:
    """Owned by the log manager, used by its parts; event loop only.

    `on_dir_failed(directory, partitions, reason)` is called once for a directory, after its logs are gone from here.
    """

    def __init__(
        self,
        directories: Sequence[str],
        *,
        on_dir_failed: Callable[[str, list[TopicPartition], str], None],
        background: Background | None = None,
    ) -> None:
        self._on_dir_failed = on_dir_failed
        self._background = background
        # The partitions of each directory, as the keys of a dict: they keep their order.
        self._online: dict[str, dict[TopicPartition, None]] = {path.rstrip("/"): {} for path in directories}
        self._offline: dict[str, str] = {}
        self._offline_partitions: set[TopicPartition] = set()
        self._logs: dict[TopicPartition, Log] = {}

    # Logs

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log, if it is here and its directory works."""
        return self._logs.get(topic_partition)

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition's directory failed: requests for it get KAFKA_STORAGE_ERROR."""
        return topic_partition in self._offline_partitions

    def items(self) -> list[tuple[TopicPartition, Log]]:
        return list(self._logs.items())

    def logs(self) -> list[Log]:
        return list(self._logs.values())

    def logs_in(self, directory: str) -> list[tuple[TopicPartition, Log]]:
        """The logs of a directory that works."""
        return [(topic_partition, self._logs[topic_partition]) for topic_partition in self._online[directory]]

    def add(self, directory: str, topic_partition: TopicPartition, log: Log) -> None:
        self._online[directory][topic_partition] = None
        self._logs[topic_partition] = log

    def add_unloaded(self, directory: str, topic_partition: TopicPartition) -> None:
        """Its log could not be loaded: the directory is about to fail, and takes the partition offline."""
        self._online[directory][topic_partition] = None

    def remove(self, topic_partition: TopicPartition) -> Log | None:
        """The partition is no longer here, online or offline; the log that it had."""
        self._offline_partitions.discard(topic_partition)
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            self._online[directory_of(log)].pop(topic_partition, None)
        return log

    # Directories

    @property
    def online_directories(self) -> list[str]:
        return list(self._online)

    @property
    def offline_directories(self) -> dict[str, str]:
        """Directory -> why it is offline."""
        return dict(self._offline)

    def is_online(self, directory: str) -> bool:
        return directory in self._online

    def count_in(self, directory: str) -> int:
        return len(self._online[directory])

    def fail_log(self, log: Log, error: StorageError) -> None:
        """A log's file operation failed: its directory can't be trusted any more.

        A log that was deleted meanwhile fails because its files are gone, which says nothing about the directory.
        """
        if self._logs.get(topic_partition_of(log)) is log:
            self.fail_dir(directory_of(log), str(error))

    def fail_dir(self, directory: str, reason: str) -> None:
        """Take a directory and its logs out of service, once."""
        partitions = self._online.pop(directory, None)
        if partitions is None:
            return
        self._offline[directory] = reason
        for topic_partition in partitions:
            self._logs.pop(topic_partition, None)
        self._offline_partitions.update(partitions)
        self._on_dir_failed(directory, sorted(partitions), reason)

    # Work on a directory

    def run(self, directory: str, work: Callable[[], None], after: Callable[[], None] = lambda: None) -> None:
        """In the background where there is one; an OSError takes the directory offline. `after` comes in any case."""

        def on_done(_: object, error: BaseException | None) -> None:
            if isinstance(error, OSError):
                self.fail_dir(directory, str(error))
            elif error is not None:
                raise error
            after()

        if self._background is not None:
            self._background.submit(work, on_done)
            return
        try:
            work()
        except OSError as error:
            on_done(None, error)
        else:
            on_done(None, None)

    def run_in_each(self, work: Callable[[str], _Result]) -> Iterator[tuple[str, _Result]]:
        """Here and now, in each directory that works; one where it fails goes offline."""
        for directory in self.online_directories:
            try:
                yield directory, work(directory)
            except OSError as error:
                self.fail_dir(directory, str(error))

    def use_background(self, background: Background | None) -> None:
        """None: from now on everything is done at once. Whatever ran in the background must have ended."""
        self._background = background


def topic_partition_of(log: Log) -> TopicPartition:
    """The partition that a log's folder is named after."""
    topic, _, partition = log.name.rpartition("-")
    return TopicPartition(topic, int(partition))


def directory_of(log: Log) -> str:
    """The log directory that a log's folder lies in."""
    return log.directory.rpartition("/")[0]
