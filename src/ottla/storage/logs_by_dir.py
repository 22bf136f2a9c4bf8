"""Which log is in which log directory, and which directories still work. No file is touched here."""

from collections.abc import Callable, Sequence

from ottla.core.errors import StorageError
from ottla.core.types import TopicPartition
from ottla.storage.log import Log


class LogsByDir:
    """The logs of a broker; those of a directory that failed are gone, and known to be offline.

    `on_dir_failed(directory, partitions, reason)` is called once for a directory, after its logs are gone from here.
    """

    def __init__(
        self, directories: Sequence[str], *, on_dir_failed: Callable[[str, list[TopicPartition], str], None]
    ) -> None:
        self._on_dir_failed = on_dir_failed
        # The partitions of each directory, as the keys of a dict: they keep their order.
        self._online: dict[str, dict[TopicPartition, None]] = {path.rstrip("/"): {} for path in directories}
        self._offline: dict[str, str] = {}
        self._offline_partitions: set[TopicPartition] = set()
        self._logs: dict[TopicPartition, Log] = {}

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log, if it is here and its directory works."""
        return self._logs.get(topic_partition)

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition's directory failed: requests for it get KAFKA_STORAGE_ERROR."""
        return topic_partition in self._offline_partitions

    def partitions(self) -> list[TopicPartition]:
        return list(self._logs)

    def logs(self) -> list[Log]:
        return list(self._logs.values())

    def logs_in(self, directory: str) -> list[tuple[TopicPartition, Log]]:
        """The logs of a directory that works."""
        return [(topic_partition, self._logs[topic_partition]) for topic_partition in self._online[directory]]

    @property
    def online_directories(self) -> list[str]:
        return list(self._online)

    @property
    def offline_directories(self) -> dict[str, str]:
        """Directory -> why it is offline."""
        return dict(self._offline)

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


def topic_partition_of(log: Log) -> TopicPartition:
    """The partition that a log's folder is named after."""
    topic, _, partition = log.name.rpartition("-")
    return TopicPartition(topic, int(partition))


def directory_of(log: Log) -> str:
    """The log directory that a log's folder lies in."""
    return log.directory.rpartition("/")[0]
