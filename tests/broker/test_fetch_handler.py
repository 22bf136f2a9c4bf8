"""Fetch requests that wait, and fetches in sessions."""

from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.protocol.fetch_client_codec import FetchAnswer
from ottla.records.header import iter_headers
from tests.broker.conftest import MakeRig
from tests.broker.rig import Rig, at, decode_fetched
from tests.storage.log_making import batch


def told(answer: FetchAnswer) -> list[tuple[int, int, bool]]:
    """(partition, error code, whether it has records), in the order of the answer."""
    return [(one.partition, one.error_code, bool(one.records)) for _, partitions in answer.topics for one in partitions]


def waiting(answer: object) -> Deferred:
    assert isinstance(answer, Deferred)
    assert not answer.is_complete
    return answer


def test_fetch_that_has_enough_is_answered_at_once(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"a"))
    assert not isinstance(rig.send_fetch(at(0), max_wait_ms=500), Deferred)


def test_fetch_that_may_not_wait_is_answered_at_once(rig: Rig) -> None:
    rig.create_topic()
    for max_wait_ms in (0, -1):
        assert told(rig.fetch(at(0), max_wait_ms=max_wait_ms)) == [(0, 0, False)]


def test_error_is_answered_at_once(rig: Rig) -> None:
    rig.create_topic()
    answer = rig.fetch(at(0), at(0, index=9), max_wait_ms=500)
    assert told(answer) == [(0, 0, False), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)]


def test_fetch_of_nothing_is_answered_at_once(rig: Rig) -> None:
    assert told(rig.fetch(max_wait_ms=500)) == []


def test_waiting_fetch_holds_its_connection_and_is_answered_in_the_turn_of_the_append(rig: Rig) -> None:
    rig.create_topic()
    answer = waiting(rig.send_fetch(at(0), max_wait_ms=500))
    assert answer.holds
    rig.produce(batch(b"a"))
    rig.produce(batch(b"b"))
    assert not answer.is_complete, "several appends of one turn are one answer"
    rig.turn()
    assert told(decode_fetched(answer)) == [(0, 0, True)]
    assert len(rig.wheel) == rig.idle_timers
    assert rig.fetches.delayed == 0


def test_fetch_waits_until_min_bytes_are_there(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    size = len(batch(b"a"))
    answer = waiting(rig.send_fetch(at(0), at(0, index=1), min_bytes=2 * size, max_wait_ms=500))
    rig.produce(batch(b"a"))
    rig.turn()
    waiting(answer)
    rig.produce(batch(b"b"), index=1)
    rig.turn()
    assert told(decode_fetched(answer)) == [(0, 0, True), (1, 0, True)]


def test_fetch_is_answered_in_time_with_what_there_is(rig: Rig) -> None:
    rig.create_topic()
    answer = waiting(rig.send_fetch(at(0), min_bytes=10_000, max_wait_ms=500))
    rig.produce(batch(b"a"))
    rig.turn()
    rig.advance(499)
    waiting(answer)
    rig.advance(1)
    assert told(decode_fetched(answer)) == [(0, 0, True)]


def test_catching_up_never_waits_at_the_end_of_a_segment(rig: Rig) -> None:
    rig.create_topic(segment_bytes="2000")
    for _ in range(40):
        rig.produce(batch(b"v" * 600))  # three to a segment
    end_offset = rig.partition().high_watermark
    assert rig.partition().log.segment_count > 8
    offset = waits = 0
    while offset < end_offset:
        answer = rig.send_fetch(at(offset), min_bytes=3_000, max_wait_ms=500)
        if isinstance(answer, Deferred):
            waits += 1
            rig.advance(500)
        ((_, (fetched,)),) = decode_fetched(answer).topics
        *_, (_, last) = iter_headers(memoryview(bytes(fetched.records)), allow_partial_tail=True)
        offset = last.next_offset
    assert waits == 1, "only the last segment may still grow"


def test_fetch_waits_at_the_end_of_a_segment_when_nothing_can_be_seen_behind_it(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"a"))
    rig.partition().log.roll(rig.now_ms)
    answer = waiting(rig.send_fetch(at(0), min_bytes=10_000, max_wait_ms=500))
    rig.produce(batch(b"b"))
    rig.turn()
    assert told(decode_fetched(answer)) == [(0, 0, True)], "what comes next can't be in the same answer"


def test_more_is_never_waited_for_than_one_answer_may_hold(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"v" * 600))
    assert not isinstance(rig.send_fetch(at(0), min_bytes=10_000, max_bytes=500, max_wait_ms=500), Deferred)


def test_fetch_wakes_when_the_fsync_lets_records_be_seen(rig: Rig) -> None:
    rig.create_topic(flush_messages="1")
    answer = waiting(rig.send_fetch(at(0), max_wait_ms=500))
    rig.send_produce(("orders", 0, batch(b"a")))
    rig.turn()
    waiting(answer)
    rig.flush()
    assert told(decode_fetched(answer)) == [(0, 0, True)]


def test_waiting_fetch_hears_that_its_topic_is_deleted(rig: Rig) -> None:
    image = rig.create_topic()
    by_name = waiting(rig.send_fetch(at(0), max_wait_ms=500))
    by_id = waiting(rig.send_fetch(at(0, image.topic_id), max_wait_ms=500, version=13))
    rig.pump.call(rig.topics.delete, "orders")
    rig.turn()
    assert told(decode_fetched(by_name)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)]
    assert told(decode_fetched(by_id, 13)) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, False)]


def test_waiting_fetch_hears_that_its_records_are_deleted(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"a", b"b"))
    answer = waiting(rig.send_fetch(at(0), min_bytes=10_000, max_wait_ms=500))
    rig.replicas.delete_records_before(rig.partition(), 2)
    rig.turn()
    assert told(decode_fetched(answer)) == [(0, ErrorCode.OFFSET_OUT_OF_RANGE, False)]


def test_abandoned_fetch_leaves_nothing_behind(rig: Rig) -> None:
    rig.create_topic()
    answer = waiting(rig.send_fetch(at(0), max_wait_ms=500))
    answer.abandon()
    assert rig.fetches.delayed == 0
    assert rig.fetches.watched == 0
    assert len(rig.wheel) == rig.idle_timers
    rig.produce(batch(b"a"))
    rig.turn()
    assert answer.answer is None


# Sessions


def test_full_fetch_with_epoch_zero_opens_a_session(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    answer = rig.fetch(at(0), at(0, index=1), session_epoch=0)
    assert answer.session_id > 0
    assert told(answer) == [(0, 0, False), (1, 0, False)]


def test_versions_without_sessions_get_none(rig: Rig) -> None:
    rig.create_topic()
    for version in (4, 6):
        rig.fetch(at(0), version=version)
    assert rig.fetch(at(0), session_epoch=-1).session_id == 0


def test_incremental_answer_has_only_news(rig: Rig) -> None:
    rig.create_topic("orders", 3)
    session_id = rig.fetch(*(at(0, index=index) for index in range(3)), session_epoch=0).session_id
    assert told(rig.fetch(session_id=session_id, session_epoch=1)) == []
    rig.produce(batch(b"a"), index=1)
    answer = rig.fetch(session_id=session_id, session_epoch=2)
    assert (answer.session_id, told(answer)) == (session_id, [(1, 0, True)])
    # The client has it now: it names only the partition that moved.
    assert told(rig.fetch(at(1, index=1), session_id=session_id, session_epoch=3)) == []


def test_partition_with_an_error_is_told_until_the_error_is_gone(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    session_id = rig.fetch(at(0), at(7, index=1), session_epoch=0).session_id
    for epoch in (1, 2):
        answer = rig.fetch(session_id=session_id, session_epoch=epoch)
        assert told(answer) == [(1, ErrorCode.OFFSET_OUT_OF_RANGE, False)]
    assert told(rig.fetch(at(0, index=1), session_id=session_id, session_epoch=3)) == [(1, 0, False)]
    assert told(rig.fetch(session_id=session_id, session_epoch=4)) == []


def test_new_log_start_is_news(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"a", b"b"))
    session_id = rig.fetch(at(2), session_epoch=0).session_id
    rig.replicas.delete_records_before(rig.partition(), 1)
    assert told(rig.fetch(session_id=session_id, session_epoch=1)) == [(0, 0, False)]


def test_incremental_fetch_waits_without_naming_anything(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    session_id = rig.fetch(at(0), at(0, index=1), session_epoch=0).session_id
    answer = waiting(rig.send_fetch(session_id=session_id, session_epoch=1, max_wait_ms=500))
    rig.produce(batch(b"a"), index=1)
    rig.turn()
    assert told(decode_fetched(answer)) == [(1, 0, True)]


def test_forgotten_partition_is_no_longer_fetched(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    session_id = rig.fetch(at(0), at(0, index=1), session_epoch=0).session_id
    rig.produce(batch(b"a"))
    rig.produce(batch(b"b"), index=1)
    answer = rig.fetch(session_id=session_id, session_epoch=1, forgotten=[("orders", [0])])
    assert told(answer) == [(1, 0, True)]


def test_partitions_take_turns_at_being_first(rig: Rig) -> None:
    rig.create_topic("orders", 3)
    for index in range(3):
        rig.produce(batch(b"v" * 100), index=index)
    wanted = [at(0, index=index) for index in range(3)]
    session_id = rig.fetch(*wanted, session_epoch=0, max_bytes=1).session_id
    served = [told(rig.fetch(session_id=session_id, session_epoch=epoch, max_bytes=1))[0] for epoch in (1, 2, 3)]
    assert served == [(1, 0, True), (2, 0, True), (0, 0, True)]


def test_wrong_session_or_epoch_is_an_error_for_the_whole_request(rig: Rig) -> None:
    rig.create_topic()
    session_id = rig.fetch(at(0), session_epoch=0).session_id
    for asked_id, epoch, version, error_code in (
        (session_id + 1, 1, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (session_id, 2, 12, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (session_id, 1, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ):
        answer = rig.fetch(session_id=asked_id, session_epoch=epoch, version=version)
        assert (answer.error_code, answer.session_id, answer.topics) == (error_code, 0, [])


def test_final_epoch_closes_the_session_and_fetches_what_is_named(rig: Rig) -> None:
    rig.create_topic()
    rig.produce(batch(b"a"))
    session_id = rig.fetch(at(0), session_epoch=0).session_id
    answer = rig.fetch(at(0), session_id=session_id, session_epoch=-1)
    assert (answer.session_id, told(answer)) == (0, [(0, 0, True)])
    assert rig.fetch(session_id=session_id, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_new_session_replaces_the_one_of_the_request(rig: Rig) -> None:
    rig.create_topic()
    old_id = rig.fetch(at(0), session_epoch=0).session_id
    new_id = rig.fetch(at(0), session_id=old_id, session_epoch=0).session_id
    assert new_id not in (0, old_id)
    assert rig.fetch(session_id=old_id, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_client_that_gets_no_slot_goes_on_without_a_session(make_rig: MakeRig) -> None:
    rig = make_rig({"max.incremental.fetch.session.cache.slots": "1"})
    rig.create_topic()
    assert rig.fetch(at(0), session_epoch=0).session_id > 0
    answer = rig.fetch(at(0), session_epoch=0)
    assert (answer.session_id, told(answer)) == (0, [(0, 0, False)])
    rig.advance(120_000)
    assert rig.fetch(at(0), session_epoch=0).session_id > 0


def test_full_fetch_with_a_partition_that_does_not_exist_opens_no_session(rig: Rig) -> None:
    rig.create_topic("orders", 1)
    answer = rig.fetch(at(0), at(0, index=1), session_epoch=0)
    assert (answer.session_id, told(answer)) == (0, [(0, 0, False), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)])
    assert rig.fetch(at(0, b"i" * 16), session_epoch=0, version=13).session_id == 0
    assert rig.fetch(at(0), session_epoch=0).session_id > 0


def test_partition_that_does_not_exist_ends_the_session_it_is_added_to(rig: Rig) -> None:
    rig.create_topic("orders", 2)
    session_id = rig.fetch(at(0), session_epoch=0).session_id
    rig.produce(batch(b"a"))
    answer = rig.fetch(at(0, index=9), session_id=session_id, session_epoch=1)
    unknown = (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)
    assert (answer.session_id, told(answer)) == (0, [(0, 0, True), unknown]), "served, and told that it is over"
    assert rig.fetch(session_id=session_id, session_epoch=2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_ends_with_the_deletion_of_one_of_its_topics(rig: Rig) -> None:
    rig.create_topic("orders")
    rig.create_topic("parcels")
    session_id = rig.fetch(at(0), at(0, "parcels"), session_epoch=0).session_id
    rig.pump.call(rig.topics.delete, "parcels")
    assert rig.fetch(session_id=session_id, session_epoch=1).session_id == 0
    assert rig.fetch(at(0), session_epoch=0).session_id > 0, "without it there is a new one"


def test_fetch_over_the_room_for_partitions_is_served_without_a_session(make_rig: MakeRig) -> None:
    rig = make_rig({"ottla.fetch.session.partitions.max": "3"})
    rig.create_topic("orders", 4)
    assert rig.fetch(*(at(0, index=index) for index in range(4)), session_epoch=0).session_id == 0
    session_id = rig.fetch(*(at(0, index=index) for index in range(3)), session_epoch=0).session_id
    assert session_id > 0
    rig.produce(batch(b"a"), index=3)
    answer = rig.fetch(at(0, index=3), session_id=session_id, session_epoch=1)
    assert (answer.session_id, told(answer)) == (0, [(3, 0, True)])


def test_session_opens_with_the_answer_of_a_fetch_that_waited(rig: Rig) -> None:
    rig.create_topic()
    answer = waiting(rig.send_fetch(at(0), session_epoch=0, max_wait_ms=500))
    rig.produce(batch(b"a"))
    rig.turn()
    session_id = decode_fetched(answer).session_id
    assert told(rig.fetch(at(1), session_id=session_id, session_epoch=1)) == []
