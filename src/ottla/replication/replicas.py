"""All partitions of this broker (Kafka's ReplicaManager): lookups, changes of their state, and the waiting requests.

Owned by the broker; event loop only. It requests fsyncs and is called when they are done; it opens no file itself.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.core.cluster import INTERNAL_TOPICS, PartitionState
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.purgatory.purgatory import DelayedOperation, Purgatory
from ottla.replication.acks_wait import AcksWait
from ottla.replication.delayed_delete_records import DelayedDeleteRecords, DeleteRecordsWait
from ottla.replication.delayed_produce import DelayedProduce
from ottla.replication.partition import Partition
from ottla.replication.ports import ALONE, ClusterPorts, PartitionPorts
from ottla.replication.refusals import refused, refused_as_internal
from ottla.storage.log import Log
from ottla.storage.log_results import AppendInfo

if TYPE_CHECKING:  # a broker alone never imports it
    from ottla.replication.follower_fetches import FollowerFetches

_NO_SUCH_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Waiting:
    """The purgatories of one broker and the clock that their timeouts run on."""

    __slots__ = ("_arm", "deletions", "fetches", "now_ms", "produces", "topic_changes")

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
        self.now_ms = now_ms
        self._arm = arm

    def watch(
        self,
        purgatory: Purgatory,
        operation: DelayedOperation,
        keys: Iterable[Hashable],
        timeout_ms: int,
        *,
        is_tried: bool = False,
    ) -> None:
        """Complete `operation` now, or let it wait; `is_tried`: it can't be completed now, as was just seen."""
        now_ms = self.now_ms()
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
        truncate_log: Callable[[Log, Offset], None] | None = None,
        restart_log: Callable[[Log, Offset], None] | None = None,
        cluster: ClusterPorts = ALONE,
    ) -> None:
        self.waiting = waiting
        self.broker_id = broker_id
        self.cluster = cluster
        self._ports = PartitionPorts(
            broker_id,
            request_flush,
            report_storage_error,
            truncate_log or _never_truncated,
            restart_log or _never_truncated,
            waiting.fetches,
            waiting.produces,
            waiting.deletions,
            waiting.now_ms,
            cluster,
            self._note_unsettled,
        )
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.followers: dict[BrokerId, FollowerFetches] = {}  # every broker that follows a partition led here
        self._led_with_followers: dict[TopicPartition, Partition] = {}
        self._unsettled: dict[TopicPartition, Partition] = {}  # their in-sync replicas have to be written again
        self._next_shrink_ms = 0
        self.topic_names: dict[bytes, str] = {}  # by topic id, of all that have a partition here
        self._partition_counts: dict[bytes, int] = {}  # the same
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
        self.partitions[topic_partition] = partition
        self.topic_names[topic_id] = topic_partition.topic
        self._partition_counts[topic_id] = self._partition_counts.get(topic_id, 0) + 1
        if state.leader == self.broker_id:
            partition.become_leader(state, now_ms=self.waiting.now_ms())
            self._note_followers(partition)
            partition.maybe_advance_high_watermark()
            self._tell_followers(partition)
        return partition

    def apply_state(self, topic_partition: TopicPartition, state: PartitionState) -> ErrorCode:
        """The controller says who leads, who follows, who is in sync. What is older than known changes nothing."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            return self._why_missing(*topic_partition)
        known = partition.state
        if state.leader_epoch < known.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        # Of the same version and with another leader: until now the partition had none here, as at a start.
        is_known = state.version < known.version or (state.version == known.version and state.leader == known.leader)
        if state.leader_epoch > known.leader_epoch or not is_known:
            self.update_state(topic_partition, state)
        return ErrorCode.NONE

    def update_state(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Leader, epoch or in-sync replicas have changed; requests that wait for the partition are tried again."""
        partition = self.partitions[topic_partition]
        known = partition.state
        now_ms = self.waiting.now_ms()
        if state.leader_epoch == known.leader_epoch and state.leader == known.leader:
            partition.update_isr(state, now_ms=now_ms)
        elif state.leader == self.broker_id:
            partition.become_leader(state, now_ms=now_ms)
        else:
            partition.become_follower(state)
        self._note_followers(partition)
        partition.advance_high_watermark()
        self._wake(topic_partition)
        self._tell_followers(partition)

    def _note_followers(self, partition: Partition) -> None:
        topic_partition = partition.topic_partition
        followers = partition.followers
        if not followers:
            self._led_with_followers.pop(topic_partition, None)
            return
        from ottla.replication.follower_fetches import FollowerFetches

        self._led_with_followers[topic_partition] = partition
        for broker_id in followers:
            if broker_id not in self.followers:
                self.followers[broker_id] = FollowerFetches(broker_id, self.waiting.fetches)

    def shrink_isrs(self) -> None:
        """The periodic call, about every half second: followers that lag leave the in-sync replicas.

        All partitions are looked at each half of `replica.lag.time.max.ms`, as in Kafka: one may lag for 1.5 times as
        long. Writes that were not answered or refused are tried again with each call.
        """
        now_ms = self.waiting.now_ms()
        if now_ms >= self._next_shrink_ms:
            self._next_shrink_ms = now_ms + self.cluster.lag_time_max_ms // 2
            due = self._led_with_followers
        else:
            due = self._unsettled
        self._unsettled = {}
        for partition in tuple(due.values()):
            partition.maybe_change_isr(now_ms=now_ms, shrinks=True)
            # One that was about to join may have given up, and held the high watermark until now.
            partition.advance_high_watermark()

    def _note_unsettled(self, partition: Partition) -> None:
        self._unsettled[partition.topic_partition] = partition

    def add_unavailable(self, topic_partition: TopicPartition) -> None:
        """A partition whose log could not be loaded or made: answered with a storage error until the next start."""
        self._unavailable.add(topic_partition)

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Stop serving a partition; requests that wait for it are tried a last time and find it gone."""
        self._unavailable.discard(topic_partition)
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            partition.is_offline = True
            self._led_with_followers.pop(topic_partition, None)
            self._unsettled.pop(topic_partition, None)
            self._forget_topic_of(partition)
            self._wake(topic_partition)
            self._tell_followers(partition)
        return partition

    def _forget_topic_of(self, partition: Partition) -> None:
        counts = self._partition_counts
        counts[partition.topic_id] -= 1
        if not counts[partition.topic_id]:
            del counts[partition.topic_id], self.topic_names[partition.topic_id]

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Their log directory failed: every request for them is answered with a storage error from now on."""
        for topic_partition in topic_partitions:
            partition = self.partitions.get(topic_partition)
            if partition is not None:
                partition.is_offline = True
                self._wake(topic_partition)
                self._tell_followers(partition)

    def on_storage_error(self, partition: Partition, error: StorageError) -> None:
        """A read of this partition failed: the log manager decides what goes offline."""
        self._ports.report_storage_error(partition.log, error)

    def on_flushed(self, topic_partition: TopicPartition) -> None:
        """An fsync is done: more of the log counts."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            return
        partition.advance_high_watermark()
        self.waiting.produces.check_and_complete(topic_partition)

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
            self._tell_followers(partition)
        return error_code

    def _why_missing(self, topic: str, partition: int) -> ErrorCode:
        return _STORAGE_ERROR if (topic, partition) in self._unavailable else _NO_SUCH_PARTITION

    def _wake(self, topic_partition: TopicPartition) -> None:
        waiting = self.waiting
        waiting.produces.check_and_complete(topic_partition)
        waiting.deletions.check_and_complete(topic_partition)
        waiting.fetches.mark(topic_partition)

    def _tell_followers(self, partition: Partition) -> None:
        """Also those whom it did not serve until now: they may have waited for it with an error."""
        for fetches in self.followers.values():
            if fetches.broker_id in partition.state.replicas:
                fetches.note((partition.topic_id, partition.topic_partition.partition))


def _never_truncated(log: Log, _: Offset) -> None:
    raise AssertionError(f"{log.name}: a broker alone follows nobody")
