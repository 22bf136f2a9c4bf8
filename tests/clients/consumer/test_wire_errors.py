"""Each error code of the wire, and each broken connection, becomes what it means: a retry, a rejoin, one exception."""

from collections.abc import Callable, Sequence

import pytest

from ottla.clients.consumer.errors import (
    CommitFailed,
    CorruptRecords,
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    InvalidTopic,
    NoOffsetForPartition,
    OffsetMetadataTooLarge,
    OffsetOutOfRange,
    RebalanceInProgress,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.clients.consumer.listener import RebalanceListener
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.clients.errors import BrokerError, ConnectionFailed, TimedOut
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from tests.clients.consumer.rig import Rig
from tests.clients.fake_network import Sent

PLACE = TopicPartition("t", 0)


def member(**settings: object) -> Rig:
    rig = Rig(group_id="g", enable_auto_commit=False, **settings)
    rig.put(PLACE, b"a", b"b")
    rig.subscribe("t")
    return rig


def by_hand(**settings: object) -> Rig:
    rig = Rig(**settings)
    rig.put(PLACE, b"a", b"b")
    rig.session.assign([PLACE])
    return rig


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_fetch_that_may_succeed_later_is_tried_again_with_new_metadata(code: ErrorCode) -> None:
    rig = by_hand()
    rig.fail_next(ApiKey.FETCH, code, code)
    before = len(rig.network.of(ApiKey.METADATA))
    assert rig.values(2_000) == [b"a", b"b"]
    assert len(rig.network.of(ApiKey.METADATA)) > max(before, 1)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationFailed),
        (ErrorCode.CORRUPT_MESSAGE, CorruptRecords),
        (ErrorCode.UNSUPPORTED_VERSION, BrokerError),
    ],
)
def test_a_fetch_that_cannot_succeed_raises_once_and_goes_on(code: ErrorCode, expected: type[BrokerError]) -> None:
    rig = by_hand()
    rig.fail_next(ApiKey.FETCH, code)
    with pytest.raises(expected, match="t-0: fetch at 0") as caught:
        rig.poll(2_000)
    assert caught.value.error_code == code
    assert rig.values(2_000) == [b"a", b"b"]


def test_a_position_out_of_range_is_reset_or_raised() -> None:
    rig = by_hand()
    rig.core.seek(PLACE, OffsetAndMetadata(99))
    assert rig.values(2_000) == [b"a", b"b"]
    rig = by_hand(auto_offset_reset="none")
    rig.core.seek(PLACE, OffsetAndMetadata(99))
    with pytest.raises(OffsetOutOfRange) as caught:
        rig.poll(2_000)
    assert caught.value.positions == {PLACE: 99}


def test_what_was_fetched_is_read_before_a_position_is_reset() -> None:
    rig = by_hand(max_poll_records=1)
    assert rig.values(1_000) == [b"a"]
    rig.starts[PLACE] = 7  # the log moved on: the next fetch, at 2, is below its start
    rig.logs[PLACE] = [b"-"] * 7 + [b"h"]
    assert rig.values(1_000) == [b"b"]
    assert rig.values(2_000) == [b"h"]


def test_a_connection_cut_during_a_fetch_costs_nothing() -> None:
    rig = by_hand()
    handler: Callable[[Sent], object] = rig._fetch
    rig.network.hold(ApiKey.FETCH)
    assert rig.poll(50) == []
    rig.network.serve(ApiKey.FETCH, handler)  # type: ignore[arg-type]
    rig.network.cut(1)
    assert rig.values(2_000) == [b"a", b"b"]


def test_a_leader_that_moved_is_asked_at_its_new_place() -> None:
    rig = Rig(brokers=2)
    rig.put(PLACE, b"a")
    rig.session.assign([PLACE])
    assert rig.values(1_000) == [b"a"]
    rig.network.move_leader("t", 0, 2)
    rig.fail_next(ApiKey.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    rig.put(PLACE, b"b")
    assert rig.values(3_000) == [b"b"]
    assert rig.network.of(ApiKey.FETCH)[-1].broker_id == 2


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailed),
        (ErrorCode.INVALID_GROUP_ID, InvalidGroupId),
        (ErrorCode.INVALID_SESSION_TIMEOUT, InvalidSessionTimeout),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, InconsistentGroupProtocol),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, GroupMaxSizeReached),
    ],
)
def test_a_refused_join_is_raised_and_tried_again_by_the_next_poll(
    code: ErrorCode, expected: type[BrokerError]
) -> None:
    rig = member()
    rig.fail_next(ApiKey.JOIN_GROUP, code)
    with pytest.raises(expected, match="group g: joining"):
        rig.poll(1_000)
    assert rig.values(1_000) == [b"a", b"b"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    ],
)
@pytest.mark.parametrize("api_key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_a_join_that_may_succeed_later_is_tried_again(api_key: ApiKey, code: ErrorCode) -> None:
    rig = member()
    rig.fail_next(api_key, code)
    assert rig.values(2_000) == [b"a", b"b"]
    if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        assert len(rig.network.of(ApiKey.FIND_COORDINATOR)) == 2


def test_a_member_id_that_must_come_first_is_used_at_once() -> None:
    rig = member()
    rig.fail_next(ApiKey.JOIN_GROUP, ErrorCode.MEMBER_ID_REQUIRED)
    assert rig.values(0) == []
    assert rig.values(1_000) == [b"a", b"b"]
    assert [sent.message.member_id for sent in rig.network.of(ApiKey.JOIN_GROUP)] == ["", "member-1"]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_heartbeat_that_is_disowned_loses_the_partitions_and_joins_again(code: ErrorCode) -> None:
    rig = member()
    told = []

    class Listener(RebalanceListener):
        def on_partitions_lost(self, topic_partitions: Sequence[TopicPartition]) -> None:
            told.append(("lost", *topic_partitions))

        def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> None:
            told.append(("assigned", *topic_partitions))

    rig.session._listener = Listener()
    assert rig.values(1_000) == [b"a", b"b"]
    rig.fail_next(ApiKey.HEARTBEAT, code)
    rig.network.advance(3_000)
    assert rig.values(1_000) == [b"a", b"b"]  # nothing was committed
    assert told == [("assigned", PLACE), ("lost", PLACE), ("assigned", PLACE)]


def test_a_fenced_member_is_out_for_good() -> None:
    rig = member(group_instance_id="one")
    assert rig.values(1_000) == [b"a", b"b"]
    rig.fail_next(ApiKey.HEARTBEAT, ErrorCode.FENCED_INSTANCE_ID)
    rig.network.advance(3_000)
    for _ in range(2):
        with pytest.raises(FencedInstanceId):
            rig.poll(100)
    assert len(rig.network.of(ApiKey.JOIN_GROUP)) == 1


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailed),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailed),
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgress),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceId),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, OffsetMetadataTooLarge),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailed),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationFailed),
        (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, BrokerError),
    ],
)
def test_a_refused_commit_is_its_own_exception(code: ErrorCode, expected: type[BrokerError]) -> None:
    rig = member()
    rig.poll(1_000)
    rig.fail_next(ApiKey.OFFSET_COMMIT, code)
    with pytest.raises(expected) as caught:
        rig.run(rig.session.commit(None, None))
    assert caught.value.error_code == code


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_commit_that_is_waited_for_is_tried_again(code: ErrorCode) -> None:
    rig = member()
    rig.poll(1_000)
    rig.fail_next(ApiKey.OFFSET_COMMIT, code, code)
    rig.run(rig.session.commit(None, None))
    assert rig.committed[PLACE] == (2, "")


def test_a_commit_that_never_succeeds_ends_with_its_time() -> None:
    rig = member()
    rig.poll(1_000)
    rig.fail_next(ApiKey.OFFSET_COMMIT, *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100)
    started_ms = rig.network.now_ms()
    with pytest.raises(TimedOut, match="COORDINATOR_LOAD_IN_PROGRESS"):
        rig.run(rig.session.commit(None, 700))
    assert rig.network.now_ms() - started_ms <= 1_000


def test_a_commit_that_is_not_waited_for_is_tried_once_and_tells() -> None:
    rig = member()
    rig.poll(1_000)
    rig.fail_next(ApiKey.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    told: list[object] = []
    rig.session.commit_async(None, lambda offsets, error: told.append(error))
    rig.session.commit_async({PLACE: 1}, lambda offsets, error: told.append(error))
    rig.poll(100)
    assert isinstance(told[0], BrokerError)
    assert told[1:] == [None]
    assert rig.committed[PLACE] == (1, "")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailed),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopicOrPartition),
    ],
)
def test_reading_committed_offsets_fails_as_it_is_told(code: ErrorCode, expected: type[BrokerError]) -> None:
    rig = by_hand(group_id="g")
    rig.poll(1_000)
    rig.fail_next(ApiKey.OFFSET_FETCH, code)
    with pytest.raises(expected):
        rig.run(rig.session.committed([PLACE], None))


def test_reading_committed_offsets_waits_for_transactions_and_coordinators() -> None:
    rig = by_hand(group_id="g")
    rig.fail_next(ApiKey.OFFSET_FETCH, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR)
    assert rig.values(2_000) == [b"a", b"b"]


def test_a_group_without_a_commit_and_a_reset_is_told() -> None:
    rig = by_hand(group_id="g", auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartition) as caught:
        rig.poll(1_000)
    assert caught.value.topic_partitions == (PLACE,)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopic),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationFailed),
    ],
)
def test_a_topic_that_cannot_be_read_is_named(code: ErrorCode, expected: type[BrokerError]) -> None:
    rig = Rig(group_id="g")
    rig.network.topic_errors["bad topic"] = code
    rig.subscribe("bad topic")
    with pytest.raises(expected, match="topic bad topic"):
        rig.poll(1_000)


def test_a_lookup_that_is_not_served_ends_at_once_and_others_with_their_time() -> None:
    rig = by_hand()
    rig.poll(1_000)
    rig.fail_next(ApiKey.LIST_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(TopicAuthorizationFailed):
        rig.run(rig.session.ends([PLACE], None, is_beginning=True))
    rig.network.serve(ApiKey.LIST_OFFSETS, lambda sent: ConnectionFailed("cut"))
    with pytest.raises(TimedOut, match="cut"):
        rig.run(rig.session.ends([PLACE], 500, is_beginning=True))


@pytest.mark.parametrize(
    "api_key",
    [
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.OFFSET_FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.FETCH,
    ],
)
def test_a_connection_cut_on_the_way_to_the_first_record_only_costs_time(api_key: ApiKey) -> None:
    rig = member()
    handler = rig.network._handlers[api_key]
    rig.network.hold(api_key)
    assert rig.poll(100) == []
    assert rig.network.held(api_key)
    rig.network.serve(api_key, handler)
    rig.network.cut(1)
    rig.network.cut(-1)  # those to any broker
    assert rig.values(5_000) == [b"a", b"b"]


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_commit_whose_answer_never_comes_is_sent_again(is_cut: bool) -> None:
    rig = member(request_timeout_ms=1_000)
    rig.poll(1_000)
    handler = rig.network._handlers[ApiKey.OFFSET_COMMIT]

    def lose(sent: Sent) -> ConnectionFailed | None:
        rig.network.serve(ApiKey.OFFSET_COMMIT, handler)
        return ConnectionFailed("cut") if is_cut else None

    rig.network.serve(ApiKey.OFFSET_COMMIT, lose)
    rig.run(rig.session.commit(None, 60_000))
    assert rig.committed[PLACE] == (2, "")
    assert len(rig.network.of(ApiKey.OFFSET_COMMIT)) == 2
    assert rig.core.group is not None
    assert rig.core.group.generation_id == 1  # the membership outlives its coordinator's connection


def test_a_late_answer_to_a_join_that_was_given_up_changes_nothing() -> None:
    rig = member()
    rig.network.hold(ApiKey.JOIN_GROUP)
    assert rig.poll(100) == []
    (held,) = rig.network.held(ApiKey.JOIN_GROUP)
    rig.run(rig.session.unsubscribe())
    held.answer(rig._join(held))
    rig.network.run()
    assert rig.core.group is not None
    assert rig.core.group.member_id == ""
    assert rig.core.subscription.states == {}
