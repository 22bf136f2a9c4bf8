"""A log manager for tests, and an idempotent producer."""

from random import Random

from ottla.core.disk import Disk
from ottla.core.types import TopicPartition
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager
from ottla.storage.meta_properties import MetaProperties
from tests.storage.hand_driven import HandBackground
from tests.storage.log_making import NOW_MS, batch, read_all, values_of

TOPIC_ID = bytes(range(16))
OURS = MetaProperties(1, "cluster-a")
ORDERS = TopicPartition("orders", 0)
SMALL = LogConfig(segment_bytes=200, file_delete_delay_ms=1000)


class ManagedLogs:
    """A log manager and what it reported."""

    def __init__(
        self,
        disk: Disk,
        directories: tuple[str, ...] = ("/a",),
        config: LogConfig = SMALL,
        *,
        with_locks: bool = False,
        background: HandBackground | None = None,
    ) -> None:
        self.config = config
        self.failed: list[tuple[str, list[TopicPartition]]] = []
        self.manager = LogManager(
            disk,
            directories,
            on_dir_failed=lambda directory, partitions, _: self.failed.append((directory, partitions)),
            random_bytes=Random(1).randbytes,
            background=background,
        )
        self._background = background
        self.manager.open(OURS, with_locks=with_locks)
        self.notes = self.manager.load(NOW_MS, config_of=lambda _: config)

    def create(self, topic_partition: TopicPartition = ORDERS) -> Log:
        log = self.manager.create_log(topic_partition, TOPIC_ID, self.config, NOW_MS)
        self.manager.sync_dirs(lambda: None)
        if self._background is not None:
            self._background.run_all()
        return log

    def log(self, topic_partition: TopicPartition = ORDERS) -> Log:
        log = self.manager.get(topic_partition)
        assert log is not None
        return log

    def values(self, topic_partition: TopicPartition = ORDERS) -> list[bytes | None]:
        return values_of(read_all(self.log(topic_partition)))


def produce(log: Log, sequence: int) -> tuple[int, bool]:
    info = log.append_as_leader(
        batch(b"%d" % sequence, producer_id=9, producer_epoch=0, base_sequence=sequence), leader_epoch=0, now_ms=NOW_MS
    )
    assert info.error_code == 0, info.error_message
    return info.first_offset, info.is_duplicate
