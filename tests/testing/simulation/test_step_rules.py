"""The rules that are judged while a run goes on."""

import pytest

from ottla.core.cluster import NO_LEADER, PartitionState
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.step_rules import Controllers, HighWatermarks, Leaders, StepRules
from tests.replication.partitions import BROKER_ID, ORDERS, append, make_partition


def test_one_leader_per_partition_and_leader_epoch() -> None:
    leaders = Leaders()
    leaders.note_stored(ORDERS, PartitionState(1, 4, (1, 2), (1, 2)))
    leaders.note_stored(ORDERS, PartitionState(NO_LEADER, 4, (1, 2), (1, 2)))
    leaders.note_stored(ORDERS, PartitionState(1, 4, (1,), (1, 2)))
    leaders.note(ORDERS, 4, 1, source="its broker")
    leaders.note(ORDERS, 5, 2, source="its broker")
    with pytest.raises(BrokenRule, match=r"orders-0 leader epoch 4: 1 \(the store\), then 2 \(its broker\)"):
        leaders.note(ORDERS, 4, 2, source="its broker")


def test_high_watermark_never_falls_within_a_leader_epoch() -> None:
    marks = HighWatermarks()
    for leader_epoch, high_watermark in ((1, 5), (1, 5), (1, 7), (2, 6), (1, 7), (2, 9)):
        marks.note(ORDERS, leader_epoch, high_watermark, log_end_offset=10)
    with pytest.raises(BrokenRule, match="orders-0 leader epoch 2: 9, then 8"):
        marks.note(ORDERS, 2, 8, log_end_offset=10)
    with pytest.raises(BrokenRule, match="11, the log ends at 10"):
        marks.note(ORDERS, 2, 11, log_end_offset=10)


def test_one_controller_per_controller_epoch() -> None:
    controllers = Controllers()
    controllers.note(1, 1)
    controllers.note(1, 1)
    controllers.note(2, 2)
    with pytest.raises(BrokenRule, match="epoch 1: 1, then 2"):
        controllers.note(1, 2)


def test_look_judges_what_a_broker_leads() -> None:
    rules = StepRules()
    partition = make_partition()
    append(partition)
    rules.look(BROKER_ID, [partition])
    append(partition)
    rules.look(BROKER_ID, [partition])
    rules.look(BROKER_ID + 1, [partition])  # a follower's mark may fall when it is cut back
    partition.high_watermark = 1
    rules.look(BROKER_ID + 1, [partition])
    with pytest.raises(BrokenRule, match="2, then 1"):
        rules.look(BROKER_ID, [partition])
    partition.is_offline = True
    rules.look(BROKER_ID, [partition])


def test_look_finds_two_leaders_of_one_epoch() -> None:
    rules = StepRules()
    one, two = make_partition(), make_partition()
    two.state = two.state._replace(leader=BROKER_ID + 1)
    rules.look(BROKER_ID, [one, two])
    with pytest.raises(BrokenRule, match="one leader"):
        rules.look(BROKER_ID + 1, [one, two])


def test_another_topic_of_the_same_name_has_leader_epochs_of_its_own() -> None:
    step_rules = StepRules()
    step_rules.on_topic("orders", b"1" * 16)
    step_rules.leaders.note(ORDERS, 0, 1, source="the store")
    step_rules.high_watermarks.note(ORDERS, 0, 7, log_end_offset=7)
    step_rules.on_topic("orders", b"1" * 16)
    with pytest.raises(BrokenRule):
        step_rules.leaders.note(ORDERS, 0, 2, source="the store")
    step_rules.on_topic("orders", b"2" * 16)
    step_rules.leaders.note(ORDERS, 0, 2, source="the store")
    step_rules.high_watermarks.note(ORDERS, 0, 0, log_end_offset=0)
