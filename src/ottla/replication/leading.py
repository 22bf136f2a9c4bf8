"""A partition that is led here and has followers: what their fetches mean for the in-sync replicas and the high
watermark, and what they have to hear of. A partition with a single replica has none of this."""

from typing import TYPE_CHECKING

from ottla.core.cluster import PartitionState
from ottla.core.types import BrokerEpoch, BrokerId, Offset
from ottla.replication.follower_fetches import FollowerFetches
from ottla.replication.follower_progress import FollowerProgress
from ottla.replication.isr import InSyncReplicas, LeaderEnds
from ottla.replication.ports import PartitionPorts

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class Leading:
    """Made by its partition the first time that it leads with followers, and kept: a write of the in-sync replicas may
    outlive the leader epoch that it was begun in."""

    __slots__ = ("_in_sync", "_partition", "_ports", "_session_key", "epoch_start_offset")

    def __init__(self, partition: "Partition", ports: PartitionPorts) -> None:
        self._partition = partition
        self._ports = ports
        self._session_key = (partition.topic_id, partition.topic_partition.partition)
        self.epoch_start_offset: Offset = 0
        self._in_sync = InSyncReplicas(
            partition.topic_partition,
            broker_id=ports.broker_id,
            ports=ports.cluster,
            now_ms=ports.now_ms,
            on_settled=self._on_isr_settled,
        )

    @property
    def followers(self) -> dict[BrokerId, FollowerProgress]:
        return self._in_sync.followers

    def begin_epoch(self, state: PartitionState, *, now_ms: int) -> None:
        """The epoch begins at the log's end; it is noted now, not with the first append: before that a follower
        compares its history with this one (KIP-279)."""
        log = self._partition.log
        log.leader_epochs.assign(state.leader_epoch, log.log_end_offset)
        start_offset = log.leader_epochs.start_offset_of(state.leader_epoch)
        self.epoch_start_offset = log.log_end_offset if start_offset is None else start_offset
        self._in_sync.lead(state, now_ms=now_ms)

    def end_epoch(self) -> None:
        self.epoch_start_offset = 0
        self._in_sync.stop_leading()

    def on_state(self, state: PartitionState, *, now_ms: int) -> None:
        """The controller has sent a newer version within the epoch."""
        self._in_sync.on_state(state, now_ms=now_ms)

    def committed_end_offset(self) -> Offset:
        """How far the high watermark may go. It stands still below `min.insync.replicas`: what a consumer has seen is
        on that many replicas, and on all that are eligible (KIP-966)."""
        partition = self._partition
        state = partition.state
        if state.eligible or len(state.isr) < min(partition.log.config.min_insync_replicas, len(state.replicas)):
            return partition.high_watermark
        return self._in_sync.smallest_durable_end(state, self._ends(), now_ms=self._ports.now_ms())

    def low_watermark(self) -> Offset:
        start_offset = self._partition.log.log_start_offset
        for broker_id, progress in self.followers.items():
            if progress.log_start_offset < start_offset and self._ports.cluster.live_epoch(broker_id) is not None:
                start_offset = progress.log_start_offset
        return start_offset

    def on_append(self, old_end_offset: Offset) -> None:
        for progress in self.followers.values():
            progress.note_append(old_end_offset)
        self.tell_followers()

    def on_high_watermark(self) -> None:
        """It moved: batches are acknowledged, and followers hear of it without a new record."""
        self._ports.produces.mark(self._partition.topic_partition)
        self.tell_followers()

    def tell_followers(self) -> None:
        for progress in self.followers.values():
            if progress.fetches is not None:
                progress.fetches.note(self._session_key)

    def on_follower_fetch(
        self,
        replica_id: BrokerId,
        *,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        durable_offset: Offset,
        log_start_offset: Offset,
        now_ms: int,
        fetches: FollowerFetches | None,
    ) -> None:
        partition = self._partition
        progress = self.followers.get(replica_id)
        log_end_offset = partition.log.log_end_offset
        if progress is None or fetch_offset > log_end_offset:
            return
        has_moved_start = log_start_offset != progress.log_start_offset
        progress.note_fetch(
            broker_epoch=broker_epoch,
            fetch_offset=fetch_offset,
            durable_offset=durable_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=log_end_offset,
            now_ms=now_ms,
        )
        progress.fetches = fetches
        # First the in-sync replicas, then the high watermark: who joins counts from now on.
        if replica_id not in partition.state.isr:
            self.maybe_change_isr(now_ms=now_ms, shrinks=False)
        partition.advance_high_watermark()
        if has_moved_start:
            self._ports.deletions.mark(partition.topic_partition)

    def maybe_change_isr(self, *, now_ms: int, shrinks: bool) -> None:
        partition = self._partition
        if partition.is_led_here and not partition.is_offline:
            self._in_sync.maybe_change(partition.state, self._ends(), now_ms=now_ms, shrinks=shrinks)
            if self._in_sync.is_unsettled:
                self._ports.on_isr_unsettled(partition)

    def _on_isr_settled(self, state: PartitionState | None) -> None:
        partition = self._partition
        if state is not None:
            partition.state = state
        partition.advance_high_watermark()
        self._ports.produces.mark(partition.topic_partition)  # below the minimum their waits end
        # A follower may have caught up meanwhile that will not be named in a fetch for long.
        self.maybe_change_isr(now_ms=self._ports.now_ms(), shrinks=False)

    def _ends(self) -> LeaderEnds:
        partition = self._partition
        return LeaderEnds(
            partition.log.log_end_offset,
            partition.durable_end_offset,
            partition.high_watermark,
            self.epoch_start_offset,
            partition.log.config.min_insync_replicas,
        )
