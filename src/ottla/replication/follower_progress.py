"""How far one follower of one partition is, as its leader sees it. Pure: the partition says when something happens."""

from typing import TYPE_CHECKING

from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, Offset

if TYPE_CHECKING:
    from ottla.replication.follower_fetches import FollowerFetches

UNKNOWN_OFFSET: Offset = -1
# Before every time that a clock can show: the wheel's clock may start at 0.
LONG_AGO_MS = -(1 << 62)


class FollowerProgress:
    """Owned by the `InSyncReplicas` of a partition; a new one for each leader epoch.

    Times are those of the wheel's clock. `fetches` is set while the follower fetches the partition in its session: it
    names the partition only when something changed, and each fetch of the session stands for all that it does not name.
    """

    __slots__ = (
        "_sampled_ms",
        "_sampled_leader_end",
        "broker_epoch",
        "durable_end_offset",
        "fetches",
        "last_caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, *, last_caught_up_ms: int) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.durable_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        self.last_caught_up_ms = last_caught_up_ms
        self.fetches: FollowerFetches | None = None
        self._sampled_ms = LONG_AGO_MS  # a fetch, and where the leader's log ended then
        self._sampled_leader_end = UNKNOWN_OFFSET

    def note_fetch(
        self,
        *,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        durable_offset: Offset,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        now_ms: int,
    ) -> None:
        """The follower asks for `fetch_offset`: it has what is below. `durable_offset` -1: all of that is durable.

        It is caught up now if it has all; and it was at an earlier fetch if it has now what the leader had then, which
        is how a follower that is always a little behind stays in sync (KIP-16).
        """
        durable_end_offset = fetch_offset if durable_offset < 0 else min(durable_offset, fetch_offset)
        if durable_end_offset >= leader_end_offset:
            self._catch_up(now_ms)
        elif durable_end_offset >= self._sampled_leader_end:
            self._catch_up(self._sampled_ms)
            self._sampled_ms = now_ms
            self._sampled_leader_end = leader_end_offset
        self.broker_epoch = broker_epoch
        self.log_end_offset = fetch_offset
        self.durable_end_offset = durable_end_offset
        self.log_start_offset = log_start_offset

    def note_append(self, old_end_offset: Offset) -> None:
        """The leader's log grew: a follower that had all of it had so up to the last fetch of its session."""
        if self.fetches is not None and self.durable_end_offset == old_end_offset:
            self._catch_up(self.fetches.last_fetch_ms)

    def leave_session(self, leader_end_offset: Offset) -> None:
        """The follower does not fetch the partition any more; what it has stays known."""
        self.note_append(leader_end_offset)
        self.fetches = None

    def is_caught_up(self, leader_end_offset: Offset, *, now_ms: int, lag_time_max_ms: int) -> bool:
        return self.durable_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def _catch_up(self, time_ms: int) -> None:
        if time_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = time_ms
