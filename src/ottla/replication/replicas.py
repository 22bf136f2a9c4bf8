"""All partitions of this broker (Kafka's ReplicaManager): lookups, changes of their state, and the waiting requests.

Owned by the broker; event loop only. It requests fsyncs and is called when they are done; it opens no file itself.
"""

from collections.abc import Callable, Iterable, Sequence

from ottla.core.cluster import INTERNAL_TOPICS, PartitionState
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.purgatory.purgatory import DelayedOperation, Purgatory
from ottla.replication.delayed_delete_records import DelayedDeleteRecords, DeleteRecordsWait
from ottla.replication.delayed_produce import DelayedProduce
from ottla.replication.partition import AcksWait, Partition, PartitionPorts, refused, refused_as_internal
from ottla.storage.log import Log
from ottla.storage.log_results import AppendInfo

_NO_SUCH_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Waiting:
    """The purgatories of one broker and the clock that their timeouts run on."""

    __slots__ = ("_arm", "_now_ms", "deletions", "fetches", "produces", "topic_changes")

    def __init__(
        self,
        *,
        produces: Purgatory,
        fetches: Purgatory,
        deletions: Purgatory,
        topic_changes: Purgatory,
        now_ms: Callable[[], int],
        arm: Callable[[], None],
    ) -> None:
        self.produces = produces
        self.fetches = fetches
        self.deletions = deletions
        self.topic_changes = topic_changes
        self._now_ms = now_ms
        self._arm = arm

    def watch(
        self,
        purgatory: Purgatory,
        operation: DelayedOperation,
        keys: Iterable[TopicPartition],
        timeout_ms: int,
        *,
        is_tried: bool = False,
    ) -> None:
        """Complete `operation` now, or let it wait; `is_tried`: it can't be completed now, as was just seen."""
        now_ms = self._now_ms()
        if is_tried:
            purgatory.watch(operation, keys, timeout_ms=timeout_ms, now_ms=now_ms)
            self._arm()
        elif not purgatory.try_complete_else_watch(operation, keys, timeout_ms=timeout_ms, now_ms=now_ms):
            self._arm()


class Replicas:
    """The partitions that this broker has a replica of, by topic and number."""

    def __init__(
        self,
        waiting: Waiting,
        *,
        broker_id: BrokerId,
        request_flush: Callable[[Log], None],
        report_storage_error: Callable[[Log, StorageError], None],
        truncate_log: Callable[[Log, Offset], None],
        restart_log: Callable[[Log, Offset], None],
    ) -> None:
        self.waiting = waiting
        self.broker_id = broker_id
        self._ports = PartitionPorts(
            broker_id, request_flush, report_storage_error, waiting.fetches, truncate_log, restart_log
        )
        self.partitions: dict[tuple[str, int], Partition] = {}
        self._unavailable: set[tuple[str, int]] = set()  # their directory failed before their logs could be loaded

    @property
    def unavailable_count(self) -> int:
        """Partitions of this broker that it can't serve since its start."""
        return len(self._unavailable)

    def find(self, topic: str, partition: int) -> Partition | ErrorCode:
        """The partition, if this broker leads it and its disk works."""
        found = self.partitions.get((topic, partition))
        if found is None:
            return self._why_missing(topic, partition)
        if found.is_offline:
            return _STORAGE_ERROR
        if found.state.leader != self.broker_id:
            return _NOT_LEADER
        return found

    def refuse_append(self, topic: str | bytes, partition: int) -> AppendInfo:
        """The answer to an append to a partition that is not among `partitions`; for the others, ask them."""
        if not isinstance(topic, str):
            return refused(ErrorCode.UNKNOWN_TOPIC_ID, None)
        if topic in INTERNAL_TOPICS:
            return refused_as_internal(topic)
        return refused(self._why_missing(topic, partition), None)

    def add(
        self,
        topic_partition: TopicPartition,
        *,
        topic_id: bytes,
        log: Log,
        state: PartitionState,
        high_watermark: Offset | None = None,
    ) -> Partition:
        """Start to serve a partition; `high_watermark` is what was checkpointed, if anything was."""
        partition = Partition(topic_partition, topic_id=topic_id, log=log, state=state, ports=self._ports)
        partition.restore_high_watermark(high_watermark)
        if state.leader == self.broker_id:
            partition.maybe_advance_high_watermark()
        self.partitions[topic_partition] = partition
        return partition

    def update_state(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Leader, epoch or in-sync replicas have changed; requests that wait for the partition are tried again."""
        partition = self.partitions[topic_partition]
        partition.state = state
        if state.leader == self.broker_id:
            partition.maybe_advance_high_watermark()
        self._wake(topic_partition)

    def add_unavailable(self, topic_partition: TopicPartition) -> None:
        """A partition whose log could not be loaded or made: answered with a storage error until the next start."""
        self._unavailable.add(topic_partition)

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Stop serving a partition; requests that wait for it are tried a last time and find it gone."""
        self._unavailable.discard(topic_partition)
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            partition.is_offline = True
            self._wake(topic_partition)
        return partition

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Their log directory failed: every request for them is answered with a storage error from now on."""
        for topic_partition in topic_partitions:
            partition = self.partitions.get(topic_partition)
            if partition is not None:
                partition.is_offline = True
                self._wake(topic_partition)

    def on_storage_error(self, partition: Partition, error: StorageError) -> None:
        """A read of this partition failed: the log manager decides what goes offline."""
        self._ports.report_storage_error(partition.log, error)

    def on_flushed(self, topic_partition: TopicPartition) -> None:
        """An fsync is done: more of the log counts."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            return
        moved = partition.state.leader == self.broker_id and partition.maybe_advance_high_watermark()
        self.waiting.produces.check_and_complete(topic_partition)
        if moved:
            self.waiting.fetches.mark(topic_partition)

    def await_acks(
        self, waits: Sequence[AcksWait], *, timeout_ms: int, on_done: Callable[[], None], is_tried: bool = False
    ) -> DelayedOperation:
        """Call `on_done` when every batch is acknowledged or never will be, or in time with what is missing."""
        operation = DelayedProduce(waits, on_done=on_done)
        keys = [wait.partition.topic_partition for wait in waits]
        self.waiting.watch(self.waiting.produces, operation, keys, timeout_ms, is_tried=is_tried)
        return operation

    def await_deletion(
        self, waits: Sequence[DeleteRecordsWait], *, timeout_ms: int, on_done: Callable[[], None]
    ) -> DelayedOperation:
        """Call `on_done` when every replica has deleted, or in time."""
        operation = DelayedDeleteRecords(waits, on_done)
        keys = [wait.partition.topic_partition for wait in waits]
        self.waiting.watch(self.waiting.deletions, operation, keys, timeout_ms)
        return operation

    def delete_records_before(self, partition: Partition, offset: Offset) -> ErrorCode:
        error_code = partition.delete_records_before(offset)
        if error_code == ErrorCode.NONE:
            self._wake(partition.topic_partition)
        return error_code

    def _why_missing(self, topic: str, partition: int) -> ErrorCode:
        return _STORAGE_ERROR if (topic, partition) in self._unavailable else _NO_SUCH_PARTITION

    def _wake(self, topic_partition: TopicPartition) -> None:
        waiting = self.waiting
        waiting.produces.check_and_complete(topic_partition)
        waiting.deletions.check_and_complete(topic_partition)
        waiting.fetches.mark(topic_partition)
