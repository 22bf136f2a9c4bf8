"""LeaderAndIsr, StopReplica and UpdateMetadata on a broker: fences, logs, replicas, what clients see, who is told."""

import errno

from ottla.core.cluster import NO_LEADER, BrokerInfo, PartitionState
from ottla.core.control import ControlAnswer
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from tests.broker.conftest import MakeRig
from tests.broker.control_values import (
    OTHER,
    broker,
    carry_out,
    image,
    leader_and_isr,
    led_by,
    stamp,
    stop,
    update_metadata,
)
from tests.broker.rig import BROKER_ID, Rig
from tests.storage.log_making import batch, read_all, values_of

ORDERS_0 = TopicPartition("orders", 0)
HERE = led_by(BROKER_ID, isr=(BROKER_ID,))


class Heard:
    """What the listeners of leadership were told."""

    def __init__(self, rig: Rig) -> None:
        self.events: list[tuple[object, ...]] = []
        replicas = rig.local_topics.local_replicas
        replicas.on_leading.append(lambda *event: self.events.append(("leading", *event)))
        replicas.on_following.append(lambda *event: self.events.append(("following", *event)))
        replicas.on_stopped.append(lambda *event: self.events.append(("stopped", *event)))


# Fences


def test_older_controller_is_refused(rig: Rig) -> None:
    assert carry_out(rig, leader_and_isr({0: HERE}, by=stamp(5))).error_code == ErrorCode.NONE
    old = stamp(4)
    for request in (
        leader_and_isr({1: HERE}, by=old),
        stop(0, deletes=True)._replace(stamp=old),
        update_metadata(deleted=("orders",), by=old),
    ):
        assert carry_out(rig, request) == ControlAnswer(ErrorCode.STALE_CONTROLLER_EPOCH)
    assert list(rig.replicas.partitions) == [ORDERS_0]
    assert carry_out(rig, leader_and_isr({1: HERE}, by=stamp(6))).error_code == ErrorCode.NONE


def test_request_to_an_earlier_life_of_the_broker_is_refused(rig: Rig) -> None:
    rig.local_topics.fence.broker_epoch = 11
    for request in (
        leader_and_isr({0: HERE}),
        stop(0, deletes=False),
        update_metadata(image({0: HERE})),
    ):
        assert carry_out(rig, request) == ControlAnswer(ErrorCode.STALE_BROKER_EPOCH)
    assert not rig.replicas.partitions
    assert "orders" not in rig.cache.topics


def test_controller_may_know_of_a_registration_before_the_broker_does(rig: Rig) -> None:
    rig.local_topics.fence.broker_epoch = 11
    assert carry_out(rig, leader_and_isr({0: HERE}, by=stamp(broker_epoch=12))).error_code == ErrorCode.NONE


def test_request_that_comes_after_a_later_one_is_refused(rig: Rig) -> None:
    picture = leader_and_isr({}, by=stamp()._replace(number=1), is_full=True)
    assert carry_out(rig, picture) == ControlAnswer()
    assert carry_out(rig, picture) == ControlAnswer()  # sent again
    assert carry_out(rig, leader_and_isr({0: HERE}, by=stamp()._replace(number=2))) == ControlAnswer()
    assert carry_out(rig, picture) == ControlAnswer(ErrorCode.STALE_CONTROLLER_EPOCH)
    assert list(rig.replicas.partitions) == [ORDERS_0]
    # Each controller, and each registration, counts anew.
    assert carry_out(rig, leader_and_isr({1: HERE}, by=stamp(broker_epoch=11))) == ControlAnswer()
    assert carry_out(rig, leader_and_isr({2: HERE}, by=stamp(6, broker_epoch=11))) == ControlAnswer()


def test_request_that_waits_is_checked_again_when_its_turn_comes(rig: Rig) -> None:
    answers: list[ControlAnswer] = []
    rig.local_topics.leader_and_isr(leader_and_isr({0: HERE}, by=stamp(5)), answers.append)
    rig.local_topics.leader_and_isr(leader_and_isr({1: HERE}, by=stamp(5)), answers.append)
    rig.local_topics.update_metadata(update_metadata(by=stamp(6)))
    rig.settle()
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH]
    assert list(rig.replicas.partitions) == [ORDERS_0]


# LeaderAndIsr


def test_new_replica_is_served_only_when_its_folder_is_durable(rig: Rig) -> None:
    answers: list[ControlAnswer] = []
    rig.local_topics.leader_and_isr(leader_and_isr({0: HERE}, configs={"segment.bytes": "4096"}), answers.append)
    assert rig.log_manager.get(ORDERS_0) is not None
    assert not answers
    assert not rig.replicas.partitions
    rig.settle()
    assert answers == [ControlAnswer()]
    assert rig.produce(batch(b"a")) == (0, 0)
    assert rig.partition().log.config.segment_bytes == 4096
    assert rig.log_manager.topic_id_of(ORDERS_0) == b"\x01" * 16


def test_leaders_and_followers_are_told_once_for_each_epoch(rig: Rig) -> None:
    heard = Heard(rig)
    carry_out(rig, update_metadata())
    carry_out(rig, leader_and_isr({0: HERE, 1: led_by(OTHER)}))
    assert heard.events == [
        ("leading", ORDERS_0, 0),
        ("following", TopicPartition("orders", 1), 0, broker(OTHER)),
    ]
    carry_out(rig, leader_and_isr({0: HERE, 1: led_by(OTHER, isr=(OTHER,), version=1)}))
    assert len(heard.events) == 2
    carry_out(rig, leader_and_isr({1: led_by(BROKER_ID, 1), 0: led_by(NO_LEADER, 1)}))
    assert heard.events[2:] == [("leading", TopicPartition("orders", 1), 1), ("following", ORDERS_0, 1, None)]
    assert rig.replicas.find("orders", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_follower_hears_of_its_leader_when_the_address_is_known(rig: Rig) -> None:
    heard = Heard(rig)
    carry_out(rig, leader_and_isr({0: led_by(OTHER, 3)}))
    assert heard.events == [("following", ORDERS_0, 3, None)]
    carry_out(rig, update_metadata())
    carry_out(rig, update_metadata())
    assert heard.events[1:] == [("following", ORDERS_0, 3, broker(OTHER))]


def test_state_of_an_older_leader_epoch_is_refused(rig: Rig) -> None:
    carry_out(rig, leader_and_isr({0: led_by(BROKER_ID, 4, isr=(BROKER_ID,), version=7)}))
    answer = carry_out(rig, leader_and_isr({0: led_by(OTHER, 3, version=8)}))
    assert answer == ControlAnswer(ErrorCode.NONE, {ORDERS_0: ErrorCode.STALE_CONTROLLER_EPOCH})


def test_state_of_an_older_version_changes_nothing(rig: Rig) -> None:
    written = led_by(BROKER_ID, 4, isr=(BROKER_ID,), version=7)
    carry_out(rig, leader_and_isr({0: written}))
    assert carry_out(rig, leader_and_isr({0: led_by(BROKER_ID, 4, version=6)})) == ControlAnswer()
    assert rig.partition().state == written
    newer = led_by(BROKER_ID, 4, version=8)
    assert carry_out(rig, leader_and_isr({0: newer})) == ControlAnswer()
    assert rig.partition().state == newer


def test_partition_without_a_replica_here_is_unknown(rig: Rig) -> None:
    elsewhere = PartitionState(OTHER, 0, (OTHER,), (OTHER,))
    answer = carry_out(rig, leader_and_isr({0: elsewhere, 1: HERE}))
    assert answer.partitions == {ORDERS_0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert list(rig.replicas.partitions) == [TopicPartition("orders", 1)]


def test_replica_of_an_older_topic_of_the_name_makes_way(rig: Rig) -> None:
    heard = Heard(rig)
    carry_out(rig, leader_and_isr({0: led_by(BROKER_ID, 9, isr=(BROKER_ID,))}, configs={"segment.bytes": "4096"}))
    rig.produce(batch(b"old"))
    assert carry_out(rig, leader_and_isr({0: HERE}, topic_id=b"\x02" * 16)) == ControlAnswer()
    assert heard.events[1:] == [("stopped", ORDERS_0, 9), ("leading", ORDERS_0, 0)]
    assert rig.produce(batch(b"new")) == (0, 0)
    assert values_of(read_all(rig.partition().log)) == [b"new"]
    assert rig.partition().log.config.segment_bytes != 4096
    (stray,) = [entry.name for entry in rig.disk.list("/data") if entry.name.endswith("-stray")]
    assert b"old" in rig.disk.read(f"/data/{stray}/{0:020d}.log")


def test_log_that_cannot_be_made_is_answered_with_a_storage_error(rig: Rig) -> None:
    rig.disk.fail_next("make_dirs", errno.ENOSPC)
    answer = carry_out(rig, leader_and_isr({0: HERE}))
    assert answer.partitions == {ORDERS_0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert rig.replicas.find("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR


def test_replica_on_a_failed_directory_is_answered_with_a_storage_error(rig: Rig) -> None:
    carry_out(rig, leader_and_isr({0: HERE}))
    rig.log_manager.fail_dir("/data", "for the test")
    answer = carry_out(rig, leader_and_isr({0: led_by(OTHER, 1)}))
    assert answer.partitions == {ORDERS_0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert carry_out(rig, stop(0, deletes=True)).partitions == {ORDERS_0: ErrorCode.KAFKA_STORAGE_ERROR}


def test_first_state_after_a_start_goes_on_at_the_checkpointed_high_watermark(rig: Rig) -> None:
    carry_out(rig, leader_and_isr({0: HERE}))
    rig.produce(batch(b"a", b"b", b"c"))
    partition = rig.partition()
    del rig.replicas.partitions[ORDERS_0]  # as a start finds it: the log is there, nobody has named it yet
    rig.local_topics.local_replicas.high_watermarks[ORDERS_0] = 2
    carry_out(rig, leader_and_isr({0: led_by(OTHER, 1)}, is_new=False))
    assert rig.partition() is not partition
    assert values_of(read_all(rig.partition().log)) == [b"a", b"b", b"c"]


def test_full_request_sets_other_logs_aside(rig: Rig) -> None:
    carry_out(rig, leader_and_isr({0: HERE, 1: HERE}))
    heard = Heard(rig)
    assert carry_out(rig, leader_and_isr({1: HERE}, is_full=True)) == ControlAnswer()
    assert heard.events == [("stopped", ORDERS_0, 0)]
    assert [str(one) for one in rig.log_manager.partitions()] == ["orders-1"]
    assert list(rig.replicas.partitions) == [TopicPartition("orders", 1)]
    assert [entry.name[:8] for entry in rig.disk.list("/data") if entry.name.endswith("-stray")] == ["orders-0"]


def test_many_logs_are_made_over_several_turns_and_later_requests_wait(rig: Rig) -> None:
    order: list[str] = []
    rig.local_topics.leader_and_isr(leader_and_isr(dict.fromkeys(range(50), HERE)), lambda _: order.append("made"))
    rig.local_topics.stop_replicas(stop(*range(50), deletes=True), lambda _: order.append("stopped"))
    assert 0 < len(rig.log_manager.partitions()) < 50
    rig.settle()
    assert order == ["made", "stopped"]
    assert not rig.replicas.partitions
    assert not rig.log_manager.partitions()


# StopReplica


def test_stopped_replica_keeps_its_log_and_a_deleted_one_does_not(rig: Rig) -> None:
    carry_out(rig, leader_and_isr({0: HERE, 1: HERE}))
    heard = Heard(rig)
    assert carry_out(rig, stop(0, deletes=False)) == ControlAnswer()
    assert heard.events == [("stopped", ORDERS_0, 0)]
    assert carry_out(rig, stop(0, 1, deletes=True)) == ControlAnswer()
    assert not rig.replicas.partitions
    assert not rig.log_manager.partitions()
    assert carry_out(rig, stop(0, deletes=True)) == ControlAnswer()  # asked again: it is gone, as it should be


def test_stop_of_an_older_epoch_is_fenced(rig: Rig) -> None:
    carry_out(rig, leader_and_isr({0: led_by(BROKER_ID, 4)}))
    answer = carry_out(rig, stop(0, deletes=True, epoch=3))
    assert answer.partitions == {ORDERS_0: ErrorCode.FENCED_LEADER_EPOCH}
    assert carry_out(rig, stop(0, deletes=True, epoch=4)) == ControlAnswer()


def test_log_that_was_never_served_since_the_start_is_deleted(make_rig: MakeRig) -> None:
    rig = make_rig()
    carry_out(rig, leader_and_isr({0: HERE}))
    rig.run(rig.core.stop())
    again = make_rig(disk=rig.disk)
    assert [str(one) for one in again.log_manager.partitions()] == ["orders-0"]
    assert carry_out(again, stop(0, deletes=True)) == ControlAnswer()
    assert not again.log_manager.partitions()


# UpdateMetadata


def test_clients_see_brokers_controller_and_topics_of_the_controller(rig: Rig) -> None:
    carry_out(rig, update_metadata(image({0: HERE, 1: led_by(OTHER)}), is_full=True))
    assert rig.cache.controller_id == OTHER
    assert list(rig.cache.brokers) == [BROKER_ID, OTHER]
    assert rig.cache.topics["orders"].partitions == {0: HERE, 1: led_by(OTHER)}


def test_partial_update_changes_the_partitions_that_it_names(rig: Rig) -> None:
    carry_out(rig, update_metadata(image({0: HERE, 1: HERE}, segment_bytes="4096"), is_full=True))
    carry_out(rig, update_metadata(image({1: led_by(OTHER, 1), 2: HERE})))
    seen = rig.cache.topics["orders"]
    assert seen.partitions == {0: HERE, 1: led_by(OTHER, 1), 2: HERE}
    assert seen.configs == {"segment.bytes": "4096"}


def test_topics_that_are_gone_are_reported(rig: Rig) -> None:
    heard: list[str] = []
    rig.local_topics.on_topic_deleted.append(heard.append)
    carry_out(rig, update_metadata(image({0: HERE}), image({0: HERE}, name="bills", topic_id=b"\x02" * 16)))
    carry_out(rig, update_metadata(deleted=("orders", "unknown")))
    assert heard == ["orders"]
    assert list(rig.cache.topics) == ["bills"]
    carry_out(rig, update_metadata(image({0: HERE}, name="bills", topic_id=b"\x03" * 16)))
    assert heard == ["orders", "bills"]
    assert rig.cache.name_of(b"\x03" * 16) == "bills"
    assert rig.cache.name_of(b"\x02" * 16) is None
    carry_out(rig, update_metadata(is_full=True))
    assert heard == ["orders", "bills", "bills"]
    assert not rig.cache.topics


def test_topic_config_that_changed_here_is_not_undone_by_the_controller(rig: Rig) -> None:
    carry_out(rig, leader_and_isr({0: HERE}, configs={"segment.bytes": "4096"}))
    carry_out(rig, update_metadata(image({0: HERE}, segment_bytes="4096"), is_full=True))
    rig.local_topics.use_topic_config("orders", {"segment.bytes": "8192"})
    carry_out(rig, leader_and_isr({0: HERE, 1: HERE}, configs={"segment.bytes": "4096"}))
    carry_out(rig, update_metadata(image({0: HERE}, segment_bytes="4096"), is_full=True))
    assert rig.cache.topics["orders"].configs == {"segment.bytes": "8192"}
    assert [log.config.segment_bytes for log in rig.log_manager.logs()] == [8192, 8192]


def test_brokers_that_did_not_change_leave_what_is_encoded(rig: Rig) -> None:
    carry_out(rig, update_metadata())
    encoded = rig.cache.encoded_topics(3, 12)
    carry_out(rig, update_metadata())
    assert rig.cache.encoded_topics(3, 12) is encoded
    info: BrokerInfo = broker(OTHER, epoch=2)
    carry_out(rig, update_metadata(brokers=(info,)))
    assert rig.cache.encoded_topics(3, 12) is not encoded
