"""Fetching ahead: sessions, room, closest replicas, transactions, and what a seek makes of it."""

import pytest

from ottla.clients.consumer.errors import RecordTooLarge
from ottla.clients.consumer.fetch_session import FetchSession
from ottla.clients.consumer.reset import parse_reset
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.clients.fetched_batches import UnreadableRecords
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.fetch_codec import FetchPartition
from ottla.protocol.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from ottla.records.build import build_batch, build_end_transaction_marker
from tests.clients.consumer.rig import Rig
from tests.clients.fake_network import Sent

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def answer(data: bytes, *, aborted: list[AbortedTransaction] | None = None, session_id: int = 0) -> FetchResponse:
    part = PartitionData(
        partition_index=0, high_watermark=99, last_stable_offset=50, aborted_transactions=aborted, records=data
    )
    return FetchResponse(session_id=session_id, responses=[FetchableTopicResponse(topic="t", partitions=[part])])


def asked(number: int, offset: int) -> FetchPartition:
    return FetchPartition(number, 0, offset, -1, -1, 100)


def test_a_session_sends_only_what_changed() -> None:
    session = FetchSession()
    first = session.build({PLACE: asked(0, 0), OTHER: asked(1, 0)})
    assert (first.session_id, first.epoch, list(first.to_send)) == (0, 0, [PLACE, OTHER])
    session.on_answer(ErrorCode.NONE, 77)
    second = session.build({PLACE: asked(0, 5), OTHER: asked(1, 0)})
    assert (second.session_id, second.epoch, list(second.to_send), second.to_forget) == (77, 1, [PLACE], [])
    session.on_answer(ErrorCode.NONE, 77)
    third = session.build({OTHER: asked(1, 0)})
    assert (third.epoch, list(third.to_send), third.to_forget) == (2, [], [PLACE])
    session.on_answer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    fourth = session.build({OTHER: asked(1, 0)})
    assert (fourth.session_id, fourth.epoch, list(fourth.to_send)) == (0, 0, [OTHER])
    session.on_answer(ErrorCode.NONE, 78)
    session.build({OTHER: asked(1, 1)})
    session.on_failure()
    assert not session.is_open
    assert session.closing() is None


def test_sessions_are_kept_over_fetches_and_closed_in_the_end() -> None:
    rig = Rig()
    batches = [bytes(build_batch([(0, None, b"v%d" % at, ())], base_offset=at)) for at in range(3)]

    def fetch(sent: Sent) -> FetchResponse | None:
        at = len(rig.network.of(ApiKey.FETCH)) - 1
        return answer(batches[at], session_id=5) if at < 3 else None

    rig.network.serve(ApiKey.FETCH, fetch)
    rig.session.assign([PLACE])
    values = []
    while len(values) < 3:
        values += rig.values(100)
    assert values == [b"v0", b"v1", b"v2"]
    sent = [each.message for each in rig.network.of(ApiKey.FETCH)]
    assert [(each.session_id, each.session_epoch) for each in sent] == [(0, 0), (5, 1), (5, 2), (5, 3)]
    rig.core.set_paused([PLACE], is_paused=True)
    rig.network.held(ApiKey.FETCH)[0].answer(answer(b"", session_id=5))
    rig.network.run()
    rig.run(rig.session.close(1_000))
    last = rig.network.of(ApiKey.FETCH)[-1].message
    assert (last.session_id, last.session_epoch, last.topics) == (5, -1, [])


def test_fetching_stops_when_enough_lies_unread_and_goes_on_when_it_was_read() -> None:
    rig = Rig(max_poll_records=1, max_partition_fetch_bytes=100)
    data = bytes(build_batch([(0, None, b"x" * 200, ()), (0, None, b"y", ())]))
    rig.network.serve(ApiKey.FETCH, lambda sent: answer(data) if len(rig.network.of(ApiKey.FETCH)) == 1 else None)
    rig.session.assign([PLACE])
    assert rig.values() == [b"x" * 200]
    rig.network.advance(1_000)
    assert len(rig.network.of(ApiKey.FETCH)) == 1
    assert rig.values() == [b"y"]
    assert rig.values(10) == []
    assert rig.network.of(ApiKey.FETCH)[-1].message.topics[0].partitions[0].fetch_offset == 2


def test_all_partitions_together_have_no_more_than_fetch_max_bytes_unread() -> None:
    topic_partitions = [TopicPartition("t", number) for number in range(8)]
    rig = Rig(topics={"t": 8}, max_poll_records=1, fetch_max_bytes=1_000, max_partition_fetch_bytes=400)

    def fetch(sent: Sent) -> FetchResponse | None:
        """As much as was asked for, of one partition after the other."""
        assert sent.message.max_bytes == 500
        parts, room = [], sent.message.max_bytes
        for asked in sent.message.topics[0].partitions:
            data = bytes(build_batch([(0, None, b"x" * 150, ())], base_offset=asked.fetch_offset))
            if len(data) > room and parts:
                break
            room -= len(data)
            parts.append(PartitionData(partition_index=asked.partition, high_watermark=99, records=data))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=parts)])

    rig.network.serve(ApiKey.FETCH, fetch)
    rig.session.assign(topic_partitions)
    seen: set[int] = set()
    for _ in range(60):
        seen |= {record.partition for record in rig.poll(100)}
        rig.network.advance(10)
        assert sum(state.queued_bytes for state in rig.core.subscription.states.values()) <= 1_000
    assert seen == set(range(8))


def test_what_a_paused_partition_has_unread_does_not_hold_the_others_up() -> None:
    rig = Rig(topics={"t": 2}, fetch_max_bytes=100, max_poll_records=1)
    rig.put(PLACE, *[b"p" * 200] * 3)
    rig.session.assign([PLACE, OTHER])
    assert rig.values() == [b"p" * 200]
    rig.core.set_paused([PLACE], is_paused=True)
    rig.put(OTHER, b"o")
    assert rig.values(2_000) == [b"o"]
    held = next(iter(rig.core.fetch_buffer.ready)).wanted
    assert held is not None
    assert isinstance(held.data, bytes)  # its own, so that the rest of the answer could go
    rig.core.set_paused([PLACE], is_paused=False)
    assert rig.values() == [b"p" * 200]


def test_the_next_fetch_leaves_with_the_last_records_and_not_with_the_poll_after_them() -> None:
    rig = Rig(max_partition_fetch_bytes=100)
    data = bytes(build_batch([(0, None, b"x" * 200, ())]))
    rig.network.serve(ApiKey.FETCH, lambda sent: answer(data) if len(rig.network.of(ApiKey.FETCH)) == 1 else None)
    rig.session.assign([PLACE])
    assert rig.values() == [b"x" * 200]
    rig.network.run()
    assert [sent.message.topics[0].partitions[0].fetch_offset for sent in rig.network.of(ApiKey.FETCH)] == [0, 1]


def test_up_to_an_offset_no_more_is_asked_for_than_leads_there() -> None:
    rig = Rig(max_poll_records=100)
    sizes = []

    def fetch(sent: Sent) -> FetchResponse:
        """Ten records at a time, whatever was asked for."""
        (asked,) = sent.message.topics[0].partitions
        sizes.append((asked.fetch_offset, asked.partition_max_bytes))
        records = [(0, None, b"x" * 20_000, ())] * 10
        return answer(bytes(build_batch(records, base_offset=asked.fetch_offset)))

    rig.network.serve(ApiKey.FETCH, fetch)
    rig.session.assign([PLACE])
    rig.core.seek(PLACE, OffsetAndMetadata(5), until=31)
    assert len(rig.values()) == 30
    assert rig.values(1_000) == []
    (first, first_bytes), (second, second_bytes), (third, third_bytes) = sizes
    assert (first, second, third) == (5, 15, 25)
    assert first_bytes == 1 << 20  # nothing is known of the topic yet
    assert 16 * 20_000 < second_bytes < 20 * 20_000
    assert 6 * 20_000 < third_bytes < 9 * 20_000
    rig.core.seek(PLACE, OffsetAndMetadata(40))
    assert rig.poll(100)[0].offset == 40  # without an end again


def test_what_was_fetched_before_a_seek_is_dropped() -> None:
    rig = Rig(max_poll_records=1)
    rig.put(PLACE, b"a", b"b", b"c", b"d")
    rig.session.assign([PLACE])
    assert rig.values() == [b"a"]
    rig.core.seek(PLACE, OffsetAndMetadata(3))
    assert rig.values(1_000) == [b"d"]  # once the fetch that waits at the broker is over


def test_the_closest_replica_is_read_until_it_fails() -> None:
    rig = Rig(brokers=2, client_rack="here")
    rig.put(PLACE, b"a")
    plain = rig._fetch

    def fetch(sent: Sent) -> object:
        if sent.broker_id == 1 and len(rig.network.of(ApiKey.FETCH)) == 1:
            part = PartitionData(partition_index=0, preferred_read_replica=2, high_watermark=1, records=b"")
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])
        return plain(sent)

    rig.network.serve(ApiKey.FETCH, fetch)  # type: ignore[arg-type]
    rig.session.assign([PLACE])
    assert rig.values() == [b"a"]
    assert [sent.broker_id for sent in rig.network.of(ApiKey.FETCH)][:2] == [1, 2]
    assert rig.network.of(ApiKey.FETCH)[0].message.rack_id == "here"
    rig.fail_next(ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE)  # the follower lags behind
    rig.network.advance(600)
    rig.put(PLACE, b"b")
    assert rig.values(2_000) == [b"b"]
    assert rig.network.of(ApiKey.FETCH)[-1].broker_id == 1


@pytest.mark.parametrize(
    ("level", "expected"), [("read_uncommitted", [b"a", b"b", b"c"]), ("read_committed", [b"b", b"c"])]
)
def test_aborted_transactions_are_left_out_of_committed_reads(level: str, expected: list[bytes]) -> None:
    rig = Rig(isolation_level=level)
    data = b"".join(
        (
            build_batch([(0, None, b"a", ())], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
            build_batch([(0, None, b"b", ())], base_offset=1),
            build_end_transaction_marker(
                is_commit=False, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=2
            ),
            build_batch([(0, None, b"c", ())], base_offset=3),
            build_end_transaction_marker(
                is_commit=True, producer_id=8, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=4
            ),
        )
    )
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    rig.network.serve(
        ApiKey.FETCH, lambda sent: answer(data, aborted=aborted) if len(rig.network.of(ApiKey.FETCH)) == 1 else None
    )
    rig.session.assign([PLACE])
    assert rig.values() == expected
    assert rig.core.subscription.states[PLACE].position == 5
    assert rig.core.lag_of(PLACE) == (45 if level == "read_committed" else 94)


def test_damage_is_told_and_can_be_passed() -> None:
    rig = Rig()
    data = bytearray(build_batch([(0, None, b"a", ())]))
    data[-2] ^= 1  # the value: the form stays sound
    good = bytes(build_batch([(0, None, b"b", ())], base_offset=1))

    def fetch(sent: Sent) -> FetchResponse:
        return answer(bytes(data) + good)

    rig.network.serve(ApiKey.FETCH, fetch)
    rig.session.assign([PLACE])
    for _ in range(2):
        with pytest.raises(UnreadableRecords, match="t-0: at offset 0"):
            rig.poll()
    rig.core.seek(PLACE, OffsetAndMetadata(1))
    assert rig.values() == [b"b"]
    rig = Rig(check_crcs=False)
    rig.network.serve(ApiKey.FETCH, fetch)
    rig.session.assign([PLACE])
    assert len(rig.values()) == 2


def test_a_batch_that_never_comes_whole_is_told() -> None:
    rig = Rig()
    data = bytes(build_batch([(0, None, b"a" * 100, ())]))[:-10]
    rig.network.serve(ApiKey.FETCH, lambda sent: answer(data))
    rig.session.assign([PLACE])
    with pytest.raises(RecordTooLarge, match=r"max\.partition\.fetch\.bytes"):
        rig.poll()


def test_a_reset_by_duration_goes_to_the_end_where_nothing_is_so_late() -> None:
    rig = Rig(auto_offset_reset="by_duration:PT1H")
    rig.put(PLACE, b"a", b"b")
    rig.session.assign([PLACE])
    assert rig.run(rig.session.position(PLACE, 1_000)) == 2
    asked_for = [each.message.topics[0].partitions[0].timestamp for each in rig.network.of(ApiKey.LIST_OFFSETS)]
    assert asked_for == [parse_reset("by_duration:PT1H").timestamp_at(1_700_000_000_000), -1]


def test_a_throttled_consumer_waits_as_long_as_it_is_told() -> None:
    rig = Rig()
    rig.put(PLACE, b"a")
    plain = rig._fetch

    def fetch(sent: Sent) -> object:
        response = plain(sent)
        if isinstance(response, FetchResponse):
            response.throttle_time_ms = 700
        return response

    rig.network.serve(ApiKey.FETCH, fetch)  # type: ignore[arg-type]
    rig.session.assign([PLACE])
    started_ms = rig.network.now_ms()
    assert rig.values() == [b"a"]
    rig.put(PLACE, b"b")
    assert rig.values(2_000) == [b"b"]
    assert rig.network.now_ms() - started_ms >= 700


def test_positions_are_looked_up_as_soon_as_the_metadata_is_there() -> None:
    rig = Rig(retry_backoff_ms=5_000)
    rig.logs[PLACE] = [b"v"]
    rig.session.assign([PLACE])
    assert rig.values(1_000) == [b"v"]
