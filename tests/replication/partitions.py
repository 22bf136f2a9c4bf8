"""Partitions on a simulated disk, and the replicas of a broker whose loop the test runs by hand."""

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.timing_wheel import TimingWheel
from ottla.core.types import TopicPartition
from ottla.purgatory.purgatory import Purgatory
from ottla.replication.partition import Partition
from ottla.replication.ports import ALONE, ClusterPorts
from ottla.replication.replicas import Replicas, Waiting
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.storage.log_making import NOW_MS, batch, open_log

BROKER_ID = 1
LED_HERE = PartitionState(leader=BROKER_ID, leader_epoch=3, isr=(BROKER_ID,), replicas=(BROKER_ID,))
ORDERS = TopicPartition("orders", 0)


def make_partition(
    config: LogConfig | None = None,
    *,
    topic_partition: TopicPartition = ORDERS,
    state: PartitionState = LED_HERE,
    disk: SimulatedDisk | None = None,
) -> Partition:
    return HandReplicas().add(config, topic_partition, state=state, disk=disk)


def append(partition: Partition, messages: int = 1) -> int:
    """One batch of that many messages; its first offset."""
    records = batch(*(b"v%d" % index for index in range(messages)))
    info, _ = partition.append(records, acks=0, now_ms=NOW_MS, produce_version=9)
    assert info.error_code == ErrorCode.NONE, info
    return info.first_offset


class HandReplicas:
    """Replicas with their purgatories; flushes and failures are only noted."""

    def __init__(self, cluster: ClusterPorts = ALONE) -> None:
        self.now_ms = 0
        self.flushes: list[Log] = []
        self.failures: list[tuple[Log, StorageError]] = []
        self.removed: list[str] = []
        self.marks = 0
        self.armed = 0
        self.wheel = TimingWheel()
        self.waiting = Waiting(
            produces=Purgatory(self.wheel, on_mark=self._on_mark),
            fetches=Purgatory(self.wheel, on_mark=self._on_mark),
            deletions=Purgatory(self.wheel, on_mark=self._on_mark),
            topic_changes=Purgatory(self.wheel),
            now_ms=lambda: self.now_ms,
            arm=self._arm,
        )
        self.replicas = Replicas(
            self.waiting,
            broker_id=BROKER_ID,
            request_flush=self.flushes.append,
            report_storage_error=lambda log, error: self.failures.append((log, error)),
            truncate_log=lambda log, offset: self.removed.extend(log.truncate_to(offset, now_ms=NOW_MS)),
            restart_log=lambda log, offset: self.removed.extend(log.truncate_fully_and_start_at(offset, now_ms=NOW_MS)),
            cluster=cluster,
        )

    def _on_mark(self) -> None:
        self.marks += 1

    def _arm(self) -> None:
        self.armed += 1

    def add(
        self,
        config: LogConfig | None = None,
        topic_partition: TopicPartition = ORDERS,
        *,
        state: PartitionState = LED_HERE,
        disk: SimulatedDisk | None = None,
    ) -> Partition:
        log = open_log(disk or SimulatedDisk(), config, directory=f"/data/{topic_partition}")
        return self.replicas.add(topic_partition, topic_id=bytes(16), log=log, state=state)

    def turn(self) -> None:
        """The end of a turn of the loop: what was marked is looked at."""
        for purgatory in (self.waiting.produces, self.waiting.deletions, self.waiting.fetches):
            purgatory.complete_marked()

    def advance(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        self.wheel.advance(self.now_ms)
