"""The in-sync replicas of a partition that is led here: who is in, who joins, who leaves, and what that means for the
high watermark (KIP-497).

The coordination store has the in-sync replicas; this broker's copy of that is `Partition.state`. While a change is
being written nobody knows which of both sets the store has, so all in either of them count: a replica counts before it
may be elected, and it goes on counting until it no longer may. Owned by its partition; event loop only.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.core.cluster import PartitionState, eligible_after
from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset, TopicPartition
from ottla.replication.follower_progress import LONG_AGO_MS, FollowerProgress
from ottla.replication.ports import ClusterPorts, IsrRefused, IsrResult, IsrUnknown, IsrWritten

# After a write that was refused or not answered. Nobody is hurt meanwhile: both sets count.
RETRY_BACKOFF_MS = 1_000


class LeaderEnds(NamedTuple):
    """Where the leader stands."""

    log_end_offset: Offset
    durable_end_offset: Offset
    high_watermark: Offset
    epoch_start_offset: Offset
    min_isr: int = 1


class _Write:
    """A change of the in-sync replicas that the store perhaps has."""

    __slots__ = ("added", "removes", "state")

    def __init__(self, state: PartitionState, added: dict[BrokerId, BrokerEpoch], *, removes: bool) -> None:
        self.state = state  # as it will be, with the version that it replaces
        self.added = added
        self.removes = removes


class InSyncReplicas:
    """For the life of a partition that has followers; `lead` with each leader epoch, `stop_leading` with its end."""

    __slots__ = (
        "_broker_id",
        "_is_asked",
        "_now_ms",
        "_on_settled",
        "_ports",
        "_retry_at_ms",
        "_topic_partition",
        "_write",
        "expansions",
        "followers",
        "shrinks",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        broker_id: BrokerId,
        ports: ClusterPorts,
        now_ms: Callable[[], int],
        on_settled: Callable[[PartitionState | None], None],
    ) -> None:
        self._topic_partition = topic_partition
        self._broker_id = broker_id
        self._ports = ports
        self._now_ms = now_ms
        self._on_settled = on_settled  # called with what the store has now; with None if nothing was written
        self._write: _Write | None = None
        self._is_asked = False  # the writer has not called back; it is asked once at a time
        self._retry_at_ms = LONG_AGO_MS
        self.followers: dict[BrokerId, FollowerProgress] = {}
        self.expansions = self.shrinks = 0

    def lead(self, state: PartitionState, *, now_ms: int) -> None:
        """A leader epoch begins: nothing is known of the followers. Those in sync have as long as any to show up."""
        self._write = None
        self._retry_at_ms = LONG_AGO_MS
        self.followers = {}
        self._follow_assignment(state, now_ms)

    def stop_leading(self) -> None:
        self._write = None
        self.followers = {}

    def on_state(self, state: PartitionState, *, now_ms: int) -> None:
        """The controller sent a newer version within the epoch. Whatever was being written replaces an older one: it
        is in this version already, or will never be."""
        self._write = None
        self._retry_at_ms = LONG_AGO_MS
        self._follow_assignment(state, now_ms)

    def _follow_assignment(self, state: PartitionState, now_ms: int) -> None:
        before = self.followers
        self.followers = {}
        for broker_id in dict.fromkeys(state.replicas + state.isr):
            if broker_id != self._broker_id:
                known = before.get(broker_id)
                in_sync_since_ms = now_ms if broker_id in state.isr else LONG_AGO_MS
                self.followers[broker_id] = known or FollowerProgress(last_caught_up_ms=in_sync_since_ms)

    # The high watermark

    def smallest_durable_end(self, state: PartitionState, ends: LeaderEnds, *, now_ms: int) -> Offset:
        """The smallest durable end of the maximal in-sync replicas: what the store has and what is being written.

        One that is about to join counts as well (as in Kafka): under a steady load the high watermark would else
        always be a step ahead of it, and it would never get in.
        """
        end_offset = ends.durable_end_offset
        write = self._write
        for broker_id, progress in self.followers.items():
            if progress.durable_end_offset < end_offset and (
                broker_id in state.isr
                or (write is not None and broker_id in write.state.isr)
                or self._is_joining(broker_id, progress, ends, now_ms)
            ):
                end_offset = progress.durable_end_offset
        return end_offset

    def _is_joining(self, broker_id: BrokerId, progress: FollowerProgress, ends: LeaderEnds, now_ms: int) -> bool:
        # Not one that lost its place while it was caught up in the past: it has to fetch in its session.
        return (
            progress.fetches is not None
            and progress.durable_end_offset >= ends.epoch_start_offset
            and progress.is_caught_up(ends.log_end_offset, now_ms=now_ms, lag_time_max_ms=self._ports.lag_time_max_ms)
            and self._is_live(broker_id, progress)
        )

    def _is_live(self, broker_id: BrokerId, progress: FollowerProgress) -> bool:
        """Whether what is known of the follower comes from the broker that is registered now: another start of it may
        have lost what an earlier one had (KIP-903)."""
        epoch = progress.broker_epoch
        return epoch != NO_BROKER_EPOCH and self._ports.live_epoch(broker_id) == epoch

    # Changes

    @property
    def is_unsettled(self) -> bool:
        """A write was not answered or was refused: `maybe_change` has to be called again."""
        return not self._is_asked and (self._write is not None or self._retry_at_ms != LONG_AGO_MS)

    def maybe_change(self, state: PartitionState, ends: LeaderEnds, *, now_ms: int, shrinks: bool) -> None:
        """Write other in-sync replicas if some caught up or, with `shrinks`, fell behind; one write at a time."""
        if self._is_asked or now_ms < self._retry_at_ms:
            return
        write = self._write
        if write is None:
            write = self._next_write(state, ends, now_ms, shrinks=shrinks)
            if write is None:
                self._retry_at_ms = LONG_AGO_MS
                return
        # One whose answer was lost is asked for again as it was: the writer finds out whether the store has it.
        self._write = write
        self._is_asked = True
        self._ports.isr_writer.write(
            self._topic_partition, write.state, write.added, lambda result: self._on_written(write, result)
        )

    def _next_write(self, state: PartitionState, ends: LeaderEnds, now_ms: int, *, shrinks: bool) -> _Write | None:
        lag_time_max_ms = self._ports.lag_time_max_ms
        committed_end = max(ends.high_watermark, ends.epoch_start_offset)
        isr = list(state.isr)
        added: dict[BrokerId, BrokerEpoch] = {}
        for broker_id, progress in self.followers.items():
            if broker_id not in state.isr:
                # Durable, not only fetched: from now on it may be elected, and must have all that was acknowledged.
                if (
                    progress.durable_end_offset >= committed_end
                    and progress.fetches is not None
                    and now_ms - progress.fetches.last_fetch_ms <= lag_time_max_ms
                    and broker_id in state.replicas
                    and self._is_live(broker_id, progress)
                ):
                    isr.append(broker_id)
                    added[broker_id] = progress.broker_epoch
            elif shrinks and not progress.is_caught_up(
                ends.log_end_offset, now_ms=now_ms, lag_time_max_ms=lag_time_max_ms
            ):
                isr.remove(broker_id)
        removes = len(isr) < len(state.isr) + len(added)
        eligible = eligible_after(state, isr, min_isr=ends.min_isr)
        # Other eligible replicas alone: the minimum was lowered. Until they are gone, the high watermark stands still.
        if not (removes or added or eligible != state.eligible):
            return None
        return _Write(state._replace(isr=tuple(isr), eligible=eligible), added, removes=removes)

    def _on_written(self, write: _Write, result: IsrResult) -> None:
        self._is_asked = False
        if write is not self._write:
            return  # overtaken by the controller, which has sent what the store has
        if isinstance(result, IsrWritten):
            self._write = None
            self._retry_at_ms = LONG_AGO_MS
            self.expansions += bool(write.added)
            self.shrinks += write.removes
            self._on_settled(write.state._replace(version=result.version))
        elif isinstance(result, IsrRefused):
            # Most likely another leader was elected, and the controller will say so; if not, we try again.
            self._write = None
            self._retry_at_ms = self._now_ms() + RETRY_BACKOFF_MS
            self._on_settled(None)
        else:
            assert isinstance(result, IsrUnknown)
            self._retry_at_ms = self._now_ms() + RETRY_BACKOFF_MS
            self._on_settled(None)
