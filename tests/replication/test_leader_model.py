"""A leader and its followers in every order of appends, fetches, fsyncs, lost answers and elections, against the rule:
what is below the high watermark is durable on every replica that may be elected."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode
from ottla.replication.acks_wait import AcksWait
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.ports import IsrUnknown
from ottla.storage.log_config import LogConfig
from tests.replication.leaders import EPOCH, LAG_MS, REFUSED, AskedWrite, Leader, state_of
from tests.replication.partitions import ORDERS
from tests.storage.log_making import NOW_MS, batch, flush

pytestmark = pytest.mark.slow

FOLLOWERS = st.sampled_from([2, 3])


class LeaderModel(RuleBasedStateMachine):
    """The store is the model's: it applies a write by its version, whatever the leader hears of it."""

    min_insync_replicas = 1
    flush_messages = 1

    def __init__(self) -> None:
        super().__init__()
        config = LogConfig(min_insync_replicas=self.min_insync_replicas, flush_messages=self.flush_messages)
        self.leader = Leader(state_of(), config)
        self.stored: PartitionState = state_of()
        self.durable = {2: 0, 3: 0}  # what the followers really have
        self.fetched = {2: 0, 3: 0}
        self.broker_epochs = dict(self.leader.live)
        self.registered = dict(self.leader.live)  # as the store knows; the leader may hear of it later
        self.open: list[AskedWrite] = []
        self.waits: list[tuple[AcksWait, list[ErrorCode]]] = []
        self.high_watermark = 0
        self.seen_writes = 0

    @property
    def partition(self) -> Partition:
        return self.leader.partition

    def new_writes(self) -> None:
        self.open += self.leader.writes[self.seen_writes :]
        self.seen_writes = len(self.leader.writes)
        assert len(self.open) <= 1, "one write at a time"

    # What may happen

    @rule(acks=st.sampled_from([1, ACKS_ALL]))
    def append(self, acks: int) -> None:
        enough = len(self.partition.state.isr) >= self.min_insync_replicas
        info, wait = self.partition.append(batch(b"v"), acks=acks, now_ms=NOW_MS)
        assert info.error_code == (ErrorCode.NONE if enough or acks == 1 else ErrorCode.NOT_ENOUGH_REPLICAS)
        if wait is not None and acks == ACKS_ALL:
            self.waits.append((wait, self.leader.await_acks(wait)))

    @rule()
    def append_durably(self) -> None:
        self.append(1)
        self.sync_own()

    @rule(broker_id=FOLLOWERS)
    def catch_up(self, broker_id: int) -> None:
        self.take_all(broker_id)
        self.sync(broker_id)
        self.fetch(broker_id)

    @precondition(lambda self: self.open)
    @rule()
    def write_at_once(self) -> None:
        self.answer(is_heard=True, is_applied=True)

    @rule(broker_id=FOLLOWERS)
    def take_all(self, broker_id: int) -> None:
        """What the leader has reaches the follower's log."""
        self.fetched[broker_id] = self.partition.log.log_end_offset

    @rule(broker_id=FOLLOWERS)
    def take_one(self, broker_id: int) -> None:
        self.fetched[broker_id] = min(self.fetched[broker_id] + 1, self.partition.log.log_end_offset)

    @rule(broker_id=FOLLOWERS)
    def sync(self, broker_id: int) -> None:
        self.durable[broker_id] = self.fetched[broker_id]

    @rule(broker_id=FOLLOWERS)
    def fetch(self, broker_id: int) -> None:
        self.leader.fetch(
            broker_id,
            self.fetched[broker_id],
            durable=self.durable[broker_id],
            broker_epoch=self.broker_epochs[broker_id],
        )
        self.new_writes()

    @rule(broker_id=FOLLOWERS)
    def fetch_idly(self, broker_id: int) -> None:
        self.leader.fetch_idly(broker_id)

    @rule(broker_id=FOLLOWERS)
    def lose_power(self, broker_id: int) -> None:
        """The follower loses what is not durable and registers anew; the leader has not heard of it."""
        self.fetched[broker_id] = self.durable[broker_id]
        self.broker_epochs[broker_id] += 1
        self.registered[broker_id] = self.broker_epochs[broker_id]

    @rule(broker_id=FOLLOWERS)
    def wipe_when_not_in_sync(self, broker_id: int) -> None:
        """A follower that may not be elected may lose anything."""
        if broker_id not in self.stored.isr:
            self.durable[broker_id] = self.fetched[broker_id] = 0
            self.broker_epochs[broker_id] += 1
            self.registered[broker_id] = self.broker_epochs[broker_id]

    @rule(broker_id=FOLLOWERS)
    def hear_of_registration(self, broker_id: int) -> None:
        self.leader.live[broker_id] = self.registered[broker_id]

    @rule()
    def sync_own(self) -> None:
        flush(self.partition.log)
        self.leader.replicas.on_flushed(ORDERS)
        self.new_writes()

    @rule(delay_ms=st.sampled_from([500, 2_000, LAG_MS + 1]))
    def pass_time(self, delay_ms: int) -> None:
        self.leader.hand.advance(delay_ms)
        self.leader.replicas.shrink_isrs()
        self.new_writes()

    @precondition(lambda self: self.open)
    @rule(is_heard=st.booleans(), is_applied=st.booleans())
    def answer(self, is_heard: bool, is_applied: bool) -> None:
        write = self.open.pop()
        if write.state == self.stored._replace(version=self.stored.version - 1) and self.stored.version:
            is_applied, is_there = True, True  # asked again after an answer was lost
        else:
            is_there = False
        fits = write.state.version == self.stored.version and all(
            self.registered[broker_id] == epoch for broker_id, epoch in write.added.items()
        )
        if not is_there and is_applied and fits:
            self.stored = write.state._replace(version=self.stored.version + 1)
            is_there = True
        if not is_heard or (fits and not is_applied):
            write.answer(IsrUnknown("connection lost"))
        elif is_there:
            write.succeed()
        else:
            write.answer(REFUSED)
        self.new_writes()

    @rule(removed=st.sampled_from([None, 2, 3]))
    def hear_of_store(self, removed: int | None) -> None:
        """The controller sends what the store has; perhaps it has dropped a follower."""
        if removed is not None and removed in self.stored.isr:
            isr = tuple(one for one in self.stored.isr if one != removed)
            self.stored = self.stored._replace(isr=isr, version=self.stored.version + 1)
        self.leader.replicas.apply_state(ORDERS, self.stored)
        self.new_writes()

    @rule()
    def elect_again(self) -> None:
        self.stored = self.stored._replace(leader_epoch=self.stored.leader_epoch + 1, version=self.stored.version + 1)
        self.leader.replicas.apply_state(ORDERS, self.stored)
        for _, done in self.waits:
            assert done, "waits belong to their epoch"
        self.new_writes()

    @rule()
    def turn(self) -> None:
        self.leader.hand.turn()
        self.new_writes()

    # What must hold

    @invariant()
    def committed_is_durable_where_it_counts(self) -> None:
        high_watermark = self.partition.high_watermark
        assert high_watermark >= self.high_watermark
        if high_watermark > self.high_watermark:
            assert self.partition.log.recovery_point >= high_watermark
            for broker_id in self.stored.isr:
                if broker_id != 1:
                    assert self.durable[broker_id] >= high_watermark
            assert len(self.partition.state.isr) >= self.min_insync_replicas
        self.high_watermark = high_watermark

    @invariant()
    def who_may_be_elected_has_all_that_is_committed(self) -> None:
        for broker_id in self.stored.isr:
            if broker_id != 1:
                assert self.durable[broker_id] >= self.partition.high_watermark

    @invariant()
    def acknowledged_is_committed(self) -> None:
        for wait, done in self.waits:
            if done == [ErrorCode.NONE]:
                assert self.partition.high_watermark >= wait.next_offset
            elif done:
                assert done[0] in (
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                    ErrorCode.REQUEST_TIMED_OUT,
                )


class LeaderOfTwoModel(LeaderModel):
    min_insync_replicas = 2


assert state_of().leader_epoch == EPOCH
TestLeaderModel = LeaderModel.TestCase
TestLeaderModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLeaderOfTwoModel = LeaderOfTwoModel.TestCase
TestLeaderOfTwoModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
