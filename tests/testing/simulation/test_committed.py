"""What is acknowledged is committed, and is on every replica that may be elected."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.coordination.paths import PartitionState
from ottla.core.types import TopicPartition
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.committed import CommittedRecords
from ottla.testing.simulation.process import ProcessState

ORDERS = TopicPartition("orders", 0)


def broker(broker_id: int, *, log_end_offset: int, high_watermark: int, leader: int = 1, epoch: int = 3) -> Any:
    """As far as the rule looks at it."""
    partition = SimpleNamespace(
        topic_partition=ORDERS,
        state=SimpleNamespace(leader=leader, leader_epoch=epoch),
        high_watermark=high_watermark,
        is_offline=False,
        log=SimpleNamespace(log_end_offset=log_end_offset, config=SimpleNamespace(flush_messages=1)),
    )
    core = SimpleNamespace(replicas=SimpleNamespace(partitions={ORDERS: partition}))
    return SimpleNamespace(broker_id=broker_id, core=core, state=ProcessState.RUNNING)


def rule_for(*brokers: Any) -> CommittedRecords:
    return CommittedRecords(cast(Any, {one.broker_id: one for one in brokers}))


def look(rule: CommittedRecords, broker: Any) -> None:
    rule.look(broker.broker_id, broker.core.replicas.partitions.values())


def stored(*isr: int, epoch: int = 3) -> PartitionState:
    return PartitionState(1, epoch, isr, 1)


def test_high_watermark_beyond_an_in_sync_replica_breaks_the_rule() -> None:
    leader, follower = broker(1, log_end_offset=9, high_watermark=9), broker(2, log_end_offset=8, high_watermark=8)
    rule = rule_for(leader, follower)
    rule.on_stored(ORDERS, stored(1, 2))
    with pytest.raises(BrokenRule, match="broker 2 ends at 8"):
        look(rule, leader)


def test_replica_that_is_not_in_sync_may_lack_what_is_committed() -> None:
    leader, follower = broker(1, log_end_offset=9, high_watermark=9), broker(2, log_end_offset=8, high_watermark=8)
    rule = rule_for(leader, follower)
    rule.on_stored(ORDERS, stored(1))
    look(rule, leader)
    look(rule, follower)


def test_replica_that_joins_without_all_that_is_committed_breaks_the_rule() -> None:
    leader, follower = broker(1, log_end_offset=9, high_watermark=9), broker(2, log_end_offset=8, high_watermark=8)
    rule = rule_for(leader, follower)
    rule.on_stored(ORDERS, stored(1))
    look(rule, leader)
    with pytest.raises(BrokenRule, match="on every in-sync replica"):
        rule.on_stored(ORDERS, stored(1, 2))


def test_leader_that_does_not_know_that_it_was_deposed_is_not_judged() -> None:
    leader, follower = broker(1, log_end_offset=9, high_watermark=9), broker(2, log_end_offset=8, high_watermark=8)
    rule = rule_for(leader, follower)
    rule.on_stored(ORDERS, stored(1, 2, epoch=4))
    look(rule, leader)


def test_acknowledgement_above_every_high_watermark_breaks_the_rule() -> None:
    leader = broker(1, log_end_offset=9, high_watermark=7)
    rule = rule_for(leader)
    rule.on_stored(ORDERS, stored(1))
    look(rule, leader)
    rule.on_acked(ORDERS, 6)
    with pytest.raises(BrokenRule, match="what is acknowledged is committed"):
        rule.on_acked(ORDERS, 7)


def test_high_watermark_of_a_follower_above_that_of_every_leader_breaks_the_rule() -> None:
    leader, follower = broker(1, log_end_offset=9, high_watermark=7), broker(2, log_end_offset=9, high_watermark=8)
    rule = rule_for(leader, follower)
    look(rule, leader)
    with pytest.raises(BrokenRule, match="only what a leader has committed"):
        look(rule, follower)
