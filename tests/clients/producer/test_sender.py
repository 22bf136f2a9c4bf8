"""The sender on a scripted cluster: batching, order under faults, retries, expiry, splitting."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.errors import BrokerError, ConnectionFailed, RequestTimedOut, UnsupportedByBroker
from ottla.clients.producer.errors import DeliveryTimedOut, RecordRefused
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.clients.producer.rig import HOLD, LOSE_ANSWER, LOSE_REQUEST, Rig

ORDERS = TopicPartition("orders", 0)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_records_of_one_turn_share_a_batch_and_get_their_offsets() -> None:
    rig = Rig()
    handles = [rig.send(value) for value in numbers(3)]
    rig.run()
    assert [handle.result(0).offset for handle in handles] == [0, 1, 2]
    assert len(rig.produce_requests()) == 1
    assert handles[1].result(0).timestamp_ms == rig.clock_ms


def test_a_batch_lingers_for_more_records() -> None:
    rig = Rig(linger_ms=20)
    first = rig.send(b"1")
    rig.advance(19)
    assert not first.done()
    second = rig.send(b"2")
    rig.advance(1)
    assert first.done()
    assert second.done()
    assert len(rig.produce_requests()) == 1


def test_a_full_batch_does_not_linger() -> None:
    rig = Rig(linger_ms=60_000, request_timeout_ms=1_000, batch_size=1_000)
    handles = [rig.send(b"x" * 400) for _ in range(5)]
    rig.run()
    assert [handle.done() for handle in handles] == [True] * 4 + [False]


def test_flush_sends_what_lingers() -> None:
    rig = Rig(linger_ms=60_000)
    handle = rig.send(b"1")
    rig.flush()
    assert handle.result(0).offset == 0


def test_batches_for_one_leader_travel_in_one_request() -> None:
    rig = Rig(topics={"orders": 4}, brokers=2)
    handles = [rig.send(b"x", partition=partition) for partition in range(4)]
    rig.flush()
    assert [handle.result(0).partition for handle in handles] == [0, 1, 2, 3]
    assert sorted(sent.node_id for sent in rig.produce_requests()) == [1, 2]


def test_a_request_stays_below_its_size() -> None:
    rig = Rig(topics={"orders": 4}, max_request_size=1_000, batch_size=900)
    for partition in range(4):
        rig.send(b"x" * 600, partition=partition)
    rig.flush()
    assert len(rig.produce_requests()) == 4


def test_no_more_requests_are_under_way_than_allowed() -> None:
    rig = Rig(topics={"orders": 8}, max_request_size=1_000, batch_size=900, max_in_flight_requests_per_connection=3)
    rig.cluster.faults.extend([HOLD] * 3)
    handles = [rig.send(b"x" * 600, partition=partition) for partition in range(8)]
    rig.run()
    assert len(rig.produce_requests()) == 3
    for sent in rig.produce_requests():
        sent.answer(rig.cluster.store(sent))
    rig.run()
    assert all(handle.done() for handle in handles)


def test_an_idempotent_partition_has_several_batches_under_way_after_its_first() -> None:
    rig = Rig(batch_size=200)
    rig.cluster.faults.extend([HOLD] * 7)
    for _ in range(10):
        rig.send(b"x" * 100)
    rig.run()
    assert len(rig.produce_requests()) == 1, "until the broker knows the producer, one alone"
    first = rig.produce_requests()[0]
    first.answer(rig.cluster.store(first))
    rig.run()
    assert len(rig.produce_requests()) == 6


def test_without_idempotence_a_partition_has_one_batch_under_way() -> None:
    rig = Rig(batch_size=200, acks="1")
    rig.cluster.faults.append(HOLD)
    for _ in range(5):
        rig.send(b"x" * 100)
    rig.run()
    assert len(rig.produce_requests()) == 1


def test_acks_0_is_done_when_it_is_handed_over() -> None:
    rig = Rig(acks="0")
    handle = rig.send(b"x")
    rig.run()
    assert handle.result(0).offset == -1
    assert rig.cluster.values("orders") == [b"x"]


def test_a_lost_answer_is_no_second_record() -> None:
    rig = Rig()
    rig.cluster.faults.append(LOSE_ANSWER)
    handle = rig.send(b"x")
    rig.flush()
    assert handle.result(0).offset == 0
    assert rig.cluster.values("orders") == [b"x"]
    assert len(rig.produce_requests()) == 2


def test_retries_wait_and_wait_longer() -> None:
    rig = Rig(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    rig.cluster.faults.extend([LOSE_REQUEST] * 5)
    rig.send(b"x")
    rig.flush()
    times = [sent.at_ms for sent in rig.produce_requests()]
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert waits[0] >= 80
    assert waits[3] > waits[0] * 3
    assert max(waits) <= 1_200


def test_a_leader_that_moved_is_found() -> None:
    rig = Rig(brokers=2)
    rig.send(b"1")
    rig.flush()
    rig.network.move_leader("orders", 0, 2)
    handle = rig.send(b"2")
    rig.flush()
    assert handle.result(0).offset == 1
    assert rig.produce_requests()[-1].node_id == 2


def test_retries_0_gives_up_at_once() -> None:
    rig = Rig(retries=0)
    rig.cluster.faults.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    handle = rig.send(b"x")
    rig.flush()
    error = handle.exception(0)
    assert isinstance(error, BrokerError)
    assert error.error_code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_an_error_that_no_retry_mends_is_told() -> None:
    rig = Rig()
    rig.cluster.faults.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    handle = rig.send(b"x")
    later = rig.send(b"y")
    rig.flush()
    with pytest.raises(BrokerError, match="orders-0: a batch of 2 records was refused: TOPIC_AUTHORIZATION_FAILED"):
        handle.result(0)
    assert later.exception(0) is not None
    handle = rig.send(b"z")
    rig.flush()
    assert handle.result(0).offset == 0, "the next sequence starts under a new epoch"
    assert rig.cluster.headers[ORDERS][0].producer_epoch == 1


def test_queued_records_expire_with_a_word_on_why() -> None:
    rig = Rig(delivery_timeout_ms=2_000, request_timeout_ms=1_000)
    rig.send(b"0")
    rig.flush()
    rig.network.down.add(1)
    handle = rig.send(b"1")
    rig.advance(2_500)
    with pytest.raises(DeliveryTimedOut, match=r"orders-0: 1 records not acknowledged within 2000 ms: it was sent"):
        handle.result(0)
    rig.network.down.clear()
    handle = rig.send(b"2")
    rig.flush()
    assert handle.result(0).offset == 1
    assert rig.cluster.values("orders") == [b"0", b"2"]


def test_records_under_way_expire_and_a_late_answer_is_ignored() -> None:
    rig = Rig(delivery_timeout_ms=1_000, request_timeout_ms=900)
    rig.cluster.faults.append(LOSE_REQUEST)
    rig.cluster.faults.append(HOLD)
    handle = rig.send(b"1")
    rig.advance(1_000)
    assert isinstance(handle.exception(0), DeliveryTimedOut)
    held = rig.produce_requests()[-1]
    if not held.is_done:
        held.answer(rig.cluster.store(held))
    rig.advance(1_000)
    handle = rig.send(b"2")
    rig.flush()
    assert rig.cluster.values("orders")[-1] == b"2"
    assert rig.core.accumulator.buffered_bytes == 0


def test_a_request_without_an_answer_is_sent_again() -> None:
    rig = Rig(request_timeout_ms=500)
    rig.cluster.faults.append(HOLD)
    handle = rig.send(b"1")
    rig.advance(2_000)
    assert handle.result(0).offset == 0


def test_a_batch_that_is_too_large_is_sent_in_parts() -> None:
    rig = Rig(batch_size=10_000)
    rig.cluster.max_message_bytes = 1_000
    values = [b"%d" % number + b"x" * 100 for number in range(50)]
    called: list[int] = []
    handles = [rig.send(value) for value in values]
    for index, handle in enumerate(handles):
        handle.add_callback(lambda _, index=index: called.append(index))  # type: ignore[misc]
    rig.flush()
    assert [handle.result(0).offset for handle in handles] == list(range(50))
    assert rig.cluster.values("orders") == values
    assert called == list(range(50))
    assert rig.core.accumulator.buffered_bytes == 0


def test_a_single_record_that_is_too_large_is_refused() -> None:
    rig = Rig(batch_size=10_000)
    rig.cluster.max_message_bytes = 200
    small, large = rig.send(b"x"), rig.send(b"x" * 500)
    rig.flush()
    assert small.result(0).offset == 0
    error = large.exception(0)
    assert isinstance(error, BrokerError)
    assert error.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_broker_that_forgot_the_producer_costs_a_new_epoch_and_no_record() -> None:
    rig = Rig()
    for value in numbers(3):
        rig.send(value)
        rig.flush()
    rig.cluster.forget_producers(ORDERS)
    rig.cluster.faults.append(ErrorCode.UNKNOWN_PRODUCER_ID)
    handle = rig.send(b"3")
    rig.flush()
    assert handle.result(0).offset == 3
    assert rig.cluster.values("orders") == numbers(4)


def test_batches_behind_one_that_expired_go_on_under_a_new_epoch() -> None:
    rig = Rig(delivery_timeout_ms=1_000, request_timeout_ms=500, batch_size=200, retry_backoff_ms=100)
    first = rig.send(b"first")
    rig.flush()
    rig.network.down.add(1)
    lost = rig.send(b"1" * 100)
    rig.advance(600)
    later = [rig.send(b"%d" % number * 100) for number in (2, 3, 4)]
    rig.advance(390)
    sequenced = [batch.has_sequence for batch in rig.core.accumulator.incomplete]
    assert sequenced[0]
    rig.advance(50)
    assert isinstance(lost.exception(0), DeliveryTimedOut)
    rig.network.down.clear()
    rig.flush()
    assert [handle.result(0).offset for handle in (first, *later)] == [0, 1, 2, 3]


def test_several_batches_under_way_behind_one_that_expired_are_stored_once() -> None:
    rig = Rig(
        delivery_timeout_ms=1_000, request_timeout_ms=500, batch_size=200, retry_backoff_ms=20, retry_backoff_max_ms=50
    )
    rig.send(b"first")
    rig.flush()
    rig.cluster.faults.extend([HOLD] * 3)
    lost = rig.send(b"1" * 100)
    rig.run()
    rig.advance(450)
    later = [rig.send(b"%d" % number * 100) for number in (2, 3)]
    rig.run()
    assert len(rig.produce_requests()) == 4, "all are under way at once"
    rig.network.down.add(1)
    rig.network.cut(1)
    rig.advance(560)
    assert isinstance(lost.exception(0), DeliveryTimedOut)
    assert not any(handle.done() for handle in later)
    rig.network.down.clear()
    rig.flush()
    assert [handle.result(0).offset for handle in later] == [1, 2]
    assert rig.cluster.values("orders") == [b"first", b"2" * 100, b"3" * 100]
    assert [header.producer_epoch for header in rig.cluster.headers[ORDERS]] == [0, 1, 1]


def test_records_that_the_broker_blames_have_errors_of_their_own() -> None:
    rig = Rig()
    handles = [rig.send(value) for value in numbers(3)]
    rig.serve_by(
        lambda sent: ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name="orders",
                    partition_responses=[
                        PartitionProduceResponse(
                            error_code=ErrorCode.INVALID_RECORD,
                            record_errors=[
                                BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
                            ],
                        )
                    ],
                )
            ]
        )
    )
    rig.flush()
    assert type(handles[0].exception(0)) is BrokerError
    assert type(handles[1].exception(0)) is RecordRefused
    assert "no key" in str(handles[1].exception(0))


def test_a_handle_that_is_kept_keeps_no_records() -> None:
    rig = Rig()
    handle = rig.send(b"x" * 1_000)
    rig.flush()
    batch = handle._batch
    assert batch.data is None
    assert batch.appender.size_bytes < 100 < batch.size_bytes
    assert batch.record_count == 1


def test_log_append_time_is_the_records_time() -> None:
    rig = Rig()
    rig.cluster.append_time_ms = 77
    handle = rig.send(b"x")
    rig.flush()
    assert handle.result(0).timestamp_ms == 77


def test_a_cluster_without_producer_ids_says_what_to_set() -> None:
    rig = Rig()
    rig.network.serve(ApiKey.INIT_PRODUCER_ID, lambda sent: UnsupportedByBroker("broker 1 doesn't serve it"))
    handle = rig.send(b"x")
    rig.flush()
    with pytest.raises(UnsupportedByBroker, match=r"set enable\.idempotence=false"):
        handle.result(0)


def test_a_cluster_that_is_starting_is_asked_again_for_a_producer_id() -> None:
    rig = Rig()
    answers = [
        InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ConnectionFailed("cut"),
        InitProducerIdResponse(producer_id=5, producer_epoch=0),
    ]
    rig.network.serve(ApiKey.INIT_PRODUCER_ID, lambda sent: answers.pop(0))
    handle = rig.send(b"x")
    rig.flush()
    assert handle.result(0).offset == 0
    assert rig.cluster.headers[ORDERS][0].producer_id == 5


def test_a_throttled_producer_waits() -> None:
    rig = Rig()
    rig.serve_by(lambda sent: _throttled(rig.cluster.store(sent)))
    rig.send(b"1")
    rig.run()
    assert rig.network.throttled_until_ms[1] == rig.network.now_ms() + 500


def _throttled(answer: ProduceResponse) -> ProduceResponse:
    answer.throttle_time_ms = 500
    return answer


def test_a_new_leader_named_in_the_answer_is_used_at_once() -> None:
    rig = Rig(brokers=2, retry_backoff_ms=10)
    rig.send(b"1")
    rig.flush()
    asked = len(rig.network.of(ApiKey.METADATA))
    rig.network.move_leader("orders", 0, 2)
    hint = PartitionProduceResponse(
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=1)
    )
    answer = ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[hint])])
    rig.serve_by(lambda sent: answer if sent.node_id == 1 else rig.cluster.store(sent))
    handle = rig.send(b"2")
    rig.flush()
    assert handle.result(0).offset == 1
    assert len(rig.network.of(ApiKey.METADATA)) == asked


def test_a_partition_without_a_leader_waits_for_one() -> None:
    rig = Rig(topics={"orders": 2})
    rig.network.topics["orders"][1] = -1
    handle = rig.send(b"1", partition=1)
    other = rig.send(b"2", partition=0)
    rig.advance(500)
    assert other.done()
    assert not handle.done()
    rig.network.topics["orders"][1] = 1
    rig.advance(2_500)
    assert handle.result(0).offset == 0


def test_closing_gives_up_what_is_left() -> None:
    rig = Rig()
    rig.cluster.faults.append(HOLD)
    under_way, waiting = rig.send(b"1"), None
    rig.run()
    waiting = rig.send(b"2")
    rig.core.close()
    assert under_way.exception(0) is not None
    assert waiting.exception(0) is not None
    assert rig.core.accumulator.buffered_bytes == 0
    rig.produce_requests()[0].fail()
    rig.advance(1_000)


FAULTS = st.sampled_from(
    [
        None,
        None,
        LOSE_REQUEST,
        LOSE_ANSWER,
        HOLD,
        int(ErrorCode.NOT_ENOUGH_REPLICAS),
        int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        int(ErrorCode.REQUEST_TIMED_OUT),
    ]
)


@settings(deadline=None, max_examples=150)
@given(
    faults=st.lists(FAULTS, max_size=25),
    sizes=st.lists(st.integers(1, 120), min_size=1, max_size=40),
    pauses=st.lists(st.integers(0, 300), max_size=40),
    too_large=st.sampled_from([1 << 30, 300]),
)
def test_with_idempotence_nothing_is_lost_or_twice_or_out_of_order(
    faults: list[object], sizes: list[int], pauses: list[int], too_large: int
) -> None:
    rig = Rig(batch_size=400, request_timeout_ms=1_000, retry_backoff_ms=20)
    rig.cluster.faults.extend(faults)
    rig.cluster.max_message_bytes = too_large
    handles = []
    values = [b"%06d" % index + b"x" * size for index, size in enumerate(sizes)]
    for index, value in enumerate(values):
        handles.append(rig.send(value))
        if index < len(pauses):
            rig.advance(pauses[index])
    rig.flush()
    assert rig.cluster.values("orders") == values
    assert [handle.result(0).offset for handle in handles] == list(range(len(values)))
    assert rig.core.accumulator.buffered_bytes == 0


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(faults=st.lists(FAULTS, max_size=60), pauses=st.lists(st.integers(0, 400), min_size=20, max_size=40))
def test_what_expires_leaves_no_duplicate_and_order_behind(faults: list[object], pauses: list[int]) -> None:
    rig = Rig(batch_size=200, delivery_timeout_ms=1_200, request_timeout_ms=400, retry_backoff_ms=100)
    rig.cluster.faults.extend(faults)
    values = [b"%06d" % index + b"x" * 60 for index in range(len(pauses))]
    handles = []
    for value, pause_ms in zip(values, pauses, strict=True):
        handles.append(rig.send(value))
        rig.advance(pause_ms)
    rig.flush()
    stored = rig.cluster.values("orders")
    assert len(set(stored)) == len(stored), "a record is there twice"
    assert stored == sorted(stored, key=lambda value: value or b""), "order is lost"
    for value, handle in zip(values, handles, strict=True):
        error = handle.exception(0)
        if error is None:
            assert stored[handle.result(0).offset] == value
        else:
            assert isinstance(error, (DeliveryTimedOut, RequestTimedOut)), error
