"""What the controller's LeaderAndIsr and StopReplica do to the replicas of this broker (Kafka's ReplicaManager side).

It makes the logs that are missing, has `replication/` lead or follow, and tells those who depend on that. It decides
nothing: who leads is the controller's decision, and whether a request counts is checked before it comes here.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from ottla.broker.local_logs import LocalLogs, WantedLog
from ottla.broker.metadata_cache import MetadataCache
from ottla.core.clock import Clock
from ottla.core.cluster import BrokerInfo, PartitionState
from ottla.core.control import LeaderAndIsr, StopReplicas
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager

Errors: TypeAlias = dict[TopicPartition, ErrorCode]
OnDone: TypeAlias = Callable[[Errors], None]

OnLeading: TypeAlias = Callable[[TopicPartition, LeaderEpoch], None]
# The leader, or None where there is none, or where this broker does not know its address: it is called again then.
OnFollowing: TypeAlias = Callable[[TopicPartition, LeaderEpoch, BrokerInfo | None], None]
# It neither leads nor follows any more.
OnStopped: TypeAlias = Callable[[TopicPartition, LeaderEpoch], None]


class _Change(NamedTuple):
    """A state that one replica is about to take."""

    log: WantedLog
    state: PartitionState


class LocalReplicas:
    """Owned by `LocalTopics`, which gives it one request at a time; event loop only."""

    def __init__(
        self,
        logs: LocalLogs,
        log_manager: LogManager,
        replicas: Replicas,
        cache: MetadataCache,
        *,
        broker_id: BrokerId,
        clock: Clock,
        forget_log: Callable[[Log, Callable[[], None]], None],
    ) -> None:
        self._logs = logs
        self._log_manager = log_manager
        self._replicas = replicas
        self._cache = cache
        self._broker_id = broker_id
        self._clock = clock
        self._forget_log = forget_log
        self._without_leader: dict[TopicPartition, PartitionState] = {}  # followers whose leader's address is not known
        # As checkpointed before the start, of partitions that no request has named yet.
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        self.on_leading: list[OnLeading] = []
        self.on_following: list[OnFollowing] = []
        self.on_stopped: list[OnStopped] = []
        # Calls back when no write of in-sync replicas is on its way to the store.
        self.await_isr_writes: Callable[[TopicPartition, Callable[[], None]], None] = lambda _, on_done: on_done()

    # LeaderAndIsr

    def lead_and_follow(self, request: LeaderAndIsr, on_done: OnDone) -> None:
        """Take the states that the controller sends; calls back when the logs that they need are durable."""
        errors: Errors = {}
        changes: list[_Change] = []
        named: dict[TopicPartition, None] = {}
        for topic in request.topics:
            for entry in topic.partitions:
                topic_partition = TopicPartition(topic.name, entry.partition)
                named[topic_partition] = None
                error_code = self._why_not(topic_partition, topic.topic_id, entry.state)
                if error_code:
                    errors[topic_partition] = error_code
                else:
                    log = WantedLog(topic_partition, topic.topic_id, entry.is_new)
                    changes.append(_Change(log, entry.state))
        missing = [change.log for change in changes if change.log.topic_partition not in self._replicas.partitions]

        def on_durable() -> None:
            for change in changes:
                error_code = self._take(change)
                if error_code:
                    errors[change.log.topic_partition] = error_code
            if request.is_full:
                self._set_strays_aside(named)
            on_done(errors)

        self._logs.make_durably(missing, on_durable)

    def _why_not(self, topic_partition: TopicPartition, topic_id: bytes, state: PartitionState) -> ErrorCode:
        """Why a state is not taken; a replica of another topic that had this name makes way for it."""
        if self._broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = self._replicas.partitions.get(topic_partition)
        if partition is None:
            return ErrorCode.NONE
        if partition.topic_id != topic_id:
            self._stop_serving(topic_partition)
            return ErrorCode.NONE
        if partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if state.leader_epoch < partition.state.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def _take(self, change: _Change) -> ErrorCode:
        topic_partition = change.log.topic_partition
        state = change.state
        known = self._replicas.partitions.get(topic_partition)
        known_epoch = None if known is None else known.state.leader_epoch
        error_code = self._apply_state(known, change)
        if error_code == ErrorCode.NONE and state.leader_epoch != known_epoch:  # else only the in-sync replicas are new
            self._tell(topic_partition, state)
        return error_code

    def _apply_state(self, partition: Partition | None, change: _Change) -> ErrorCode:
        """Have `replication/` serve the replica with its new state."""
        topic_partition = change.log.topic_partition
        if partition is not None:
            return self._replicas.apply_state(topic_partition, change.state)
        log = self._logs.get(topic_partition)
        if log is None:
            self._replicas.add_unavailable(topic_partition)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._replicas.add(
            topic_partition,
            topic_id=change.log.topic_id,
            log=log,
            state=change.state,
            high_watermark=self.high_watermarks.pop(topic_partition, None),
        )
        return ErrorCode.NONE

    def _tell(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        self._without_leader.pop(topic_partition, None)
        if state.leader == self._broker_id:
            for on_leading in self.on_leading:
                on_leading(topic_partition, state.leader_epoch)
            return
        leader = self._cache.brokers.get(state.leader)
        if leader is None and state.leader >= 0:
            self._without_leader[topic_partition] = state
        for on_following in self.on_following:
            on_following(topic_partition, state.leader_epoch, leader)

    def on_brokers_changed(self) -> None:
        """Followers that wait for the address of their leader may find it now."""
        if self._without_leader:
            for topic_partition, state in list(self._without_leader.items()):
                if state.leader in self._cache.brokers:
                    self._tell(topic_partition, state)

    def _set_strays_aside(self, named: Mapping[TopicPartition, None]) -> None:
        """The controller has named all replicas of this broker: others were moved or deleted while it was away."""
        for topic_partition in self._log_manager.partitions():
            if (
                topic_partition not in named and self._logs.get(topic_partition) is not None
            ):  # else its directory failed
                self._stop_serving(topic_partition)
                self._logs.set_aside(topic_partition, "no replica of this broker any more")
        self.high_watermarks.clear()

    # StopReplica

    def stop(self, request: StopReplicas, on_done: OnDone) -> None:
        """Stop replicas; calls back when the logs of those that are deleted are durably out of the way."""
        errors: Errors = {}
        deleted: list[TopicPartition] = []
        unfinished = 1  # the folders, each log that is being flushed, what its leader has written

        def on_part_done() -> None:
            nonlocal unfinished
            unfinished -= 1
            if unfinished == 0:
                on_done(errors)

        for topic_partition, leader_epoch, deletes in request.replicas:
            partition = self._replicas.partitions.get(topic_partition)
            if partition is not None and 0 <= leader_epoch < partition.state.leader_epoch:
                errors[topic_partition] = ErrorCode.FENCED_LEADER_EPOCH
            elif self._log_manager.is_offline(topic_partition):
                errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            elif deletes:
                unfinished += 2
                self._stop_serving(topic_partition, on_part_done)
                self.await_isr_writes(topic_partition, on_part_done)
                deleted.append(topic_partition)
            elif partition is not None:
                self._tell_stopped(topic_partition, partition.state.leader_epoch)
        if deleted:
            self._logs.delete_durably(deleted, on_part_done)
        else:
            on_part_done()

    def _stop_serving(self, topic_partition: TopicPartition, on_log_free: Callable[[], None] = lambda: None) -> None:
        """Nobody reads or writes the log from here on; calls back when no fsync of it runs any more."""
        self.high_watermarks.pop(topic_partition, None)
        partition = self._replicas.remove(topic_partition)
        if partition is None:
            on_log_free()
            return
        self._tell_stopped(topic_partition, partition.state.leader_epoch)
        self._forget_log(partition.log, on_log_free)

    def _tell_stopped(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        self._without_leader.pop(topic_partition, None)
        for on_stopped in self.on_stopped:
            on_stopped(topic_partition, leader_epoch)
