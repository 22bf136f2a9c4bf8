"""The user's side on the fake network: listeners, interceptors, callbacks, automatic commits, and time."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ottla.clients.consumer.errors import IllegalUse, WokenUp
from ottla.clients.consumer.listener import RebalanceListener
from ottla.clients.consumer.rebalance import Phase
from ottla.clients.consumer.values import ConsumerRecord, OffsetAndMetadata
from ottla.clients.errors import TimedOut
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from tests.clients.consumer.rig import Rig

PLACE = TopicPartition("t", 0)


def member(listener: RebalanceListener | None = None, **settings: Any) -> Rig:
    rig = Rig(group_id="g", **settings)
    rig.put(PLACE, b"a", b"b", b"c")
    rig.subscribe("t", listener=listener)
    return rig


def test_a_listener_may_seek_before_anything_is_read() -> None:
    class Listener(RebalanceListener):
        def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> None:
            for topic_partition in topic_partitions:
                rig.core.seek(topic_partition, OffsetAndMetadata(2))

    rig = member(Listener())
    assert rig.values(1_000) == [b"c"]
    assert not rig.network.of(ApiKey.OFFSET_FETCH)  # who sought needs no committed offset


def test_a_listener_that_raises_is_heard_and_the_rebalance_goes_on() -> None:
    class Listener(RebalanceListener):
        def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> None:
            raise KeyError("mine")

    rig = member(Listener())
    with pytest.raises(KeyError, match="mine"):
        rig.poll(1_000)
    assert rig.values(1_000) == [b"a", b"b", b"c"]


def test_automatic_commits_happen_with_a_poll_and_before_partitions_go() -> None:
    commits: list[int] = []

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, topic_partitions: Sequence[TopicPartition]) -> None:
            commits.append(rig.committed[PLACE][0])

    rig = member(Listener(), max_poll_records=1, auto_commit_interval_ms=1_000)
    assert rig.values(1_000) == [b"a"]
    rig.network.advance(1_000)
    assert rig.committed == {}
    assert rig.values(1_000) == [b"b"]  # committed what was returned before: one record
    rig.network.run()
    assert rig.committed[PLACE] == (1, "")
    rig.fail_next(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS)
    rig.network.advance(3_000)
    assert rig.core.group is not None
    assert rig.core.group.phase is Phase.REVOKING
    rig.poll(1_000)
    assert commits == [2]


def test_interceptors_see_records_and_commits_and_cannot_break_anything() -> None:
    seen: list[Any] = []

    class Interceptor:
        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            return [record for record in records if record.value != b"b"]

        def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
            seen.append({topic_partition: offset.offset for topic_partition, offset in offsets.items()})

        def close(self) -> None:
            seen.append("closed")

    class Broken:
        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            raise RuntimeError

    rig = member(interceptor_classes=[Broken(), Interceptor], enable_auto_commit=False)
    assert rig.values(1_000) == [b"a", b"c"]
    rig.run(rig.session.commit(None, None))
    rig.run(rig.session.close(1_000))
    assert seen == [{PLACE: 3}, "closed"]


def test_who_does_not_poll_in_time_leaves_and_comes_back_with_the_next_poll() -> None:
    rig = member(max_poll_interval_ms=10_000, enable_auto_commit=False)
    rig.poll(1_000)
    rig.network.advance(9_000)
    assert not rig.network.of(ApiKey.LEAVE_GROUP)
    rig.network.advance(1_000)
    (left,) = rig.network.of(ApiKey.LEAVE_GROUP)
    assert "max.poll.interval.ms" in left.message.members[0].reason
    beats = len(rig.network.of(ApiKey.HEARTBEAT))
    rig.network.advance(20_000)
    assert len(rig.network.of(ApiKey.HEARTBEAT)) == beats
    assert len(rig.network.of(ApiKey.JOIN_GROUP)) == 1
    assert rig.values(1_000) == [b"a", b"b", b"c"]


def test_a_long_poll_is_no_absence() -> None:
    rig = member(max_poll_interval_ms=1_000)
    rig.poll(1_000)
    assert rig.poll(5_000) == []
    assert not rig.network.of(ApiKey.LEAVE_GROUP)


def test_heartbeats_go_on_between_polls() -> None:
    rig = member(heartbeat_interval_ms=1_000)
    rig.poll(1_000)
    before = len(rig.network.of(ApiKey.HEARTBEAT))
    rig.network.advance(10_000)
    assert len(rig.network.of(ApiKey.HEARTBEAT)) - before == 10
    assert {sent.node_id for sent in rig.network.of(ApiKey.HEARTBEAT)} == {1}


def test_new_partitions_make_the_leader_rebalance() -> None:
    rig = member(metadata_max_age_ms=1_000)
    rig.poll(1_000)
    rig.network.add_topic("t", 3)
    for _ in range(30):
        rig.poll(100)
    assert set(rig.core.subscription.states) == {TopicPartition("t", number) for number in range(3)}


def test_a_static_member_names_itself_and_does_not_leave() -> None:
    rig = member(group_instance_id="one")
    rig.poll(1_000)
    rig.run(rig.session.commit(None, None))
    rig.run(rig.session.close(1_000))
    assert not rig.network.of(ApiKey.LEAVE_GROUP)
    for api_key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_COMMIT):
        assert rig.network.of(api_key)[-1].message.group_instance_id == "one"


def test_who_closes_when_a_rebalance_has_begun_leaves_without_joining_again() -> None:
    rig = member(heartbeat_interval_ms=100)
    rig.poll(1_000)
    rig.fail_next(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS)
    rig.network.advance(150)  # heard of, and waiting for a poll to give the partitions up
    assert rig.core.group is not None
    assert rig.core.group.phase is Phase.REVOKING
    rig.run(rig.session.close(1_000))
    assert len(rig.network.of(ApiKey.JOIN_GROUP)) == 1
    assert len(rig.network.of(ApiKey.LEAVE_GROUP)) == 1


def test_who_closes_while_it_joins_leaves_beside_the_join_that_is_held_up() -> None:
    rig = member()
    rig.poll(1_000)
    rig.network.hold(ApiKey.JOIN_GROUP)
    rig.fail_next(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS)
    rig.poll(4_000)
    assert len(rig.network.held(ApiKey.JOIN_GROUP)) == 1  # the others of the group don't poll
    rig.run(rig.session.close(1_000))
    (left,) = rig.network.of(ApiKey.LEAVE_GROUP)
    assert left.message.members[0].member_id == "member-1"
    assert left.broker_id != rig.network.of(ApiKey.JOIN_GROUP)[-1].broker_id


def test_unsubscribing_leaves_and_another_subscription_may_follow() -> None:
    rig = member()
    rig.poll(1_000)
    rig.run(rig.session.unsubscribe())
    assert rig.core.subscription.states == {}
    assert len(rig.network.of(ApiKey.LEAVE_GROUP)) == 1
    rig.session.assign([PLACE])
    assert rig.values(1_000) == []  # what was read is committed
    with pytest.raises(IllegalUse, match="did you mean"):
        rig.run(rig.session.subscribe("t", None))


def test_wakeup_ends_one_call() -> None:
    rig = member()
    rig.session.is_woken = True
    with pytest.raises(WokenUp):
        rig.poll(1_000)
    assert rig.values(1_000) == [b"a", b"b", b"c"]


def test_a_coordinator_that_is_away_is_waited_for_and_closing_is_bounded() -> None:
    rig = member()
    rig.network.serve(ApiKey.FIND_COORDINATOR, lambda sent: None)
    started_ms = rig.network.now_ms()
    assert rig.poll(500) == []
    with pytest.raises(TimedOut):
        rig.run(rig.session.committed([PLACE], 300))
    rig.run(rig.session.close(1_000))
    assert rig.network.now_ms() - started_ms < 7_000


def test_topics_that_change_while_a_join_is_under_way_are_joined_for_next() -> None:
    rig = member()
    rig.network.add_topic("u", 1)
    rig.network.hold(ApiKey.JOIN_GROUP)
    assert rig.poll(50) == []
    (held,) = rig.network.held(ApiKey.JOIN_GROUP)
    rig.subscribe("t", "u")
    rig.network.serve(ApiKey.JOIN_GROUP, rig._join)
    held.answer(rig._join(held))
    for _ in range(20):
        rig.poll(50)
    assert set(rig.core.subscription.states) == {PLACE, TopicPartition("u", 0)}


def test_the_answer_to_a_join_of_before_is_not_taken_for_the_next_one_s() -> None:
    rig = member()
    rig.network.hold(ApiKey.JOIN_GROUP)
    assert rig.poll(50) == []
    rig.run(rig.session.unsubscribe())
    rig.subscribe("t")
    assert rig.poll(50) == []
    first, second = rig.network.held(ApiKey.JOIN_GROUP)
    first.answer(rig._join(first))
    rig.network.run()
    assert rig.core.group is not None
    assert rig.core.group.phase is Phase.JOINING
    second.answer(rig._join(second))
    assert rig.values(1_000) == [b"a", b"b", b"c"]
    assert rig.core.group.generation_id == 2


def test_partitions_lost_while_the_listener_gives_them_up_are_told_once_and_kept_when_they_come_back() -> None:
    told: list[str] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> None:
            told.append("assigned")

        def on_partitions_revoked(self, topic_partitions: Sequence[TopicPartition]) -> None:
            told.append("revoked")
            rig.fail_next(ApiKey.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
            rig.network.advance(3_000)

        def on_partitions_lost(self, topic_partitions: Sequence[TopicPartition]) -> None:
            told.append("lost")

    rig = member(Listener(), enable_auto_commit=False)
    rig.poll(1_000)
    rig.fail_next(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS)
    rig.network.advance(3_000)
    for _ in range(5):
        rig.poll(100)
    assert told == ["assigned", "revoked", "assigned"]
    assert set(rig.core.subscription.states) == {PLACE}
