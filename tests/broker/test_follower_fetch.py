"""Fetches of followers: what they get, what they say by asking, their session, and how they wait."""

import sys
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker.handlers.follower_fetch import FollowerFetchHandler
from ottla.core.cluster import PartitionState
from ottla.core.errors import ErrorCode
from ottla.core.exchange import Deferred
from ottla.core.types import TopicPartition
from ottla.protocol.fetch_client_codec import FetchAnswer
from ottla.protocol.fetch_codec import FetchArguments, FetchedPartition, FetchPartition
from ottla.records.header import iter_headers
from ottla.replication.partition import Partition
from ottla.storage.log_config import LogConfig
from ottla.testing.simulated_disk import SimulatedDisk
from tests.broker.rig import bytes_of, decode_fetched
from tests.replication.leaders import EPOCH, LAG_MS, REFUSED, Leader, state_of
from tests.replication.partitions import ORDERS
from tests.storage.log_making import NOW_MS, batch, open_log

VERSION = 16
TOPIC_ID = bytes(16)
NOT_SAID = -1


class Cluster(Leader):
    """A leader whose followers speak to its handler."""

    def __init__(self, state: PartitionState | None = None, config: LogConfig | None = None) -> None:
        super().__init__(state, config)
        self.session_ids = 100
        self.handler = FollowerFetchHandler(self.replicas, max_bytes=1 << 20, new_session_id=self._new_id)

    def _new_id(self) -> int:
        self.session_ids += 1
        return self.session_ids

    def send(
        self,
        *wanted: FetchPartition,
        follower: int = 2,
        broker_epoch: int | None = None,
        session: tuple[int, int] = (0, 0),
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        forgotten: Sequence[int] = (),
        topic_id: bytes = TOPIC_ID,
        version: int = VERSION,
    ) -> Any:
        """`session` is its id and epoch; (0, 0) asks for a new one."""
        arguments = FetchArguments(
            replica_id=follower,
            replica_epoch=follower * 10 if broker_epoch is None else broker_epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=session[0],
            session_epoch=session[1],
            topics=[(topic_id, list(wanted))] if wanted else [],
            forgotten_topics=[(topic_id, list(forgotten))] if forgotten else [],
            rack_id="",
        )
        return self.handler.handle(arguments, version, 77)

    def ask(self, *wanted: FetchPartition, **settings: Any) -> FetchAnswer:
        return decode_fetched(self.send(*wanted, max_wait_ms=0, **settings), VERSION)

    def one(self, *wanted: FetchPartition, **settings: Any) -> FetchedPartition:
        ((_, (fetched,)),) = self.ask(*wanted, **settings).topics
        return fetched

    def add_partition(self, number: int, state: PartitionState | None = None) -> Partition:
        log = open_log(SimulatedDisk(), None, directory=f"/data/orders-{number}")
        return self.replicas.add(
            TopicPartition("orders", number), topic_id=TOPIC_ID, log=log, state=state_of() if state is None else state
        )


def at(
    offset: int,
    partition: int = 0,
    *,
    epoch: int = EPOCH,
    last_epoch: int = NOT_SAID,
    durable: int = NOT_SAID,
    start: int = 0,
    max_bytes: int = 1 << 20,
) -> FetchPartition:
    return FetchPartition(partition, epoch, offset, last_epoch, start, max_bytes, durable)


def offsets(fetched: FetchedPartition) -> list[int]:
    assert isinstance(fetched.records, (bytes, memoryview))
    return [header.base_offset for _, header in iter_headers(fetched.records, allow_partial_tail=True)]


def waiting(answer: object) -> Deferred:
    assert isinstance(answer, Deferred)
    assert not answer.is_complete
    return answer


def answered(answer: Deferred) -> list[tuple[int, int, list[int], int]]:
    """(partition, error code, offsets of batches, high watermark)."""
    topics = decode_fetched(answer, VERSION).topics
    return [
        (one.partition, one.error_code, offsets(one), one.high_watermark)
        for _, partitions in topics
        for one in partitions
    ]


# What a follower gets


def test_follower_reads_to_the_end_of_the_log_and_hears_of_the_high_watermark() -> None:
    cluster = Cluster()
    cluster.appended(3)
    fetched = cluster.one(at(1))
    assert (fetched.error_code, offsets(fetched), fetched.high_watermark) == (0, [1, 2], 0)


def test_fetch_says_how_far_the_follower_is() -> None:
    cluster = Cluster(state_of(1, 2))
    cluster.appended(3)
    assert cluster.one(at(2)).high_watermark == 2
    assert cluster.high_watermark == 2


def test_durable_offset_counts_apart_from_what_was_fetched() -> None:
    cluster = Cluster(state_of(1, 2))
    cluster.appended(3)
    assert cluster.one(at(3, durable=1)).high_watermark == 1


@pytest.mark.parametrize(
    ("epoch", "error_code"), [(EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH), (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_fetch_in_another_leader_epoch_is_refused_and_says_nothing(epoch: int, error_code: ErrorCode) -> None:
    cluster = Cluster(state_of(1, 2))
    cluster.appended(3)
    assert cluster.one(at(3, epoch=epoch)).error_code == error_code
    assert cluster.high_watermark == 0


def test_fetch_without_a_leader_epoch_says_nothing() -> None:
    cluster = Cluster(state_of(1, 2))
    cluster.appended(3)
    assert cluster.one(at(3, epoch=-1)).error_code == 0
    assert cluster.high_watermark == 0


@pytest.mark.parametrize("offset", [4, 10**12])
def test_offset_above_the_end_is_out_of_range_and_says_nothing(offset: int) -> None:
    cluster = Cluster(state_of(1, 2))
    cluster.appended(3)
    fetched = cluster.one(at(offset))
    assert (fetched.error_code, fetched.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    assert cluster.high_watermark == 0


def test_offset_below_the_start_is_out_of_range_and_says_nothing() -> None:
    cluster = Cluster(state_of(1, replicas=(1, 2)))
    cluster.appended(3)
    cluster.replicas.delete_records_before(cluster.partition, 2)
    fetched = cluster.one(at(1, last_epoch=EPOCH))
    assert (fetched.error_code, fetched.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)
    assert cluster.writes == []


def test_deposed_leader_serves_nobody() -> None:
    cluster = Cluster()
    cluster.appended(1)
    cluster.replicas.apply_state(ORDERS, state_of(leader=3, epoch=EPOCH + 1, version=1))
    assert cluster.one(at(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Histories that differ


def with_history() -> Cluster:
    """Epoch 2 at 0, epoch 3 at 2, and leads in epoch 6 from 4 on, where two more are appended."""
    cluster = Cluster(state_of(leader=2, epoch=3))
    for offset, epoch in ((0, 2), (1, 2), (2, 3), (3, 3)):
        records = batch(b"v", base_offset=offset, leader_epoch=epoch)
        assert not cluster.partition.append_as_follower(records, leader_epoch=3, now_ms=NOW_MS).error_code
    cluster.replicas.apply_state(ORDERS, state_of(1, 2, epoch=6, version=1))
    cluster.appended(2)
    return cluster


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (6, 6, None),
        (4, 3, None),
        (5, 3, (3, 4)),  # a record of epoch 3 that we never had
        (4, 4, (3, 4)),  # an epoch that we never had
        (5, 5, (3, 4)),
        (2, 2, None),
        (3, 2, (2, 2)),
        (1, 1, (1, 0)),  # before our history, which begins at 0
    ],
)
def test_history_that_leaves_ours_is_answered_with_where_it_does(
    offset: int, last_epoch: int, diverging: tuple[int, int] | None
) -> None:
    cluster = with_history()
    fetched = cluster.one(at(offset, epoch=6, last_epoch=last_epoch))
    assert fetched.error_code == 0
    assert fetched.diverging_epoch == diverging
    if diverging is not None:
        assert offsets(fetched) == []
        assert cluster.high_watermark == 0, "it does not have what its offset says"
    else:
        assert cluster.high_watermark == offset


def test_future_epoch_is_out_of_range() -> None:
    assert with_history().one(at(4, epoch=6, last_epoch=7)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# Who asks


def test_broker_that_has_registered_anew_is_the_only_one_that_is_served() -> None:
    cluster = Cluster(state_of(1, 2))
    cluster.appended(1)
    cluster.live[2] = 21
    answer = cluster.ask(at(1), broker_epoch=20)
    assert (answer.error_code, answer.topics, cluster.high_watermark) == (ErrorCode.STALE_BROKER_EPOCH, [], 0)
    assert cluster.one(at(1), broker_epoch=21).high_watermark == 1


def test_fetch_of_an_earlier_start_that_comes_late_is_refused() -> None:
    cluster = Cluster(state_of(1, 2))
    cluster.live.clear()  # nothing is known of registrations yet
    cluster.appended(1)
    cluster.ask(at(0), broker_epoch=22)
    assert cluster.ask(at(1), broker_epoch=21).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.ask(at(1), broker_epoch=-1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.high_watermark == 0


def test_version_without_the_broker_epoch_is_refused() -> None:
    cluster = Cluster()
    answer = decode_fetched(cluster.send(at(0), version=14), 14)
    assert answer.topics[0][1][0].error_code == ErrorCode.REPLICA_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("epoch", "error_code"), [(-1, ErrorCode.REPLICA_NOT_AVAILABLE), (EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_broker_that_has_no_replica_is_refused_and_gets_no_session(epoch: int, error_code: ErrorCode) -> None:
    cluster = Cluster()
    answer = cluster.ask(at(0, epoch=epoch), follower=9)
    assert (answer.topics[0][1][0].error_code, answer.session_id) == (error_code, 0)
    other = cluster.add_partition(1, state_of(1, 2, replicas=(1, 2)))
    assert other.followers.keys() == {2}
    assert cluster.one(at(0, 1, epoch=epoch), follower=3).error_code == error_code


def test_unknown_topic_and_partition() -> None:
    cluster = Cluster()
    assert cluster.one(at(0), topic_id=b"\x07" * 16).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert cluster.one(at(0, 5)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_caught_up_follower_joins_the_in_sync_replicas() -> None:
    cluster = Cluster(state_of(1, 3))
    cluster.appended(2)
    cluster.ask(at(1))
    cluster.ask(at(2))
    assert [(write.isr, write.added) for write in cluster.writes] == [((1, 3, 2), {2: 20})]


# Sessions


def opened(cluster: Cluster, *wanted: FetchPartition, **settings: Any) -> int:
    answer = cluster.ask(*wanted, **settings)
    assert answer.session_id > 0
    return answer.session_id


def test_incremental_fetch_names_only_what_moved_and_gets_only_news() -> None:
    cluster = Cluster(state_of(1, 2, replicas=(1, 2)))
    second = cluster.add_partition(1, state_of(1, 2, replicas=(1, 2)))
    session_id = opened(cluster, at(0), at(0, 1))
    assert cluster.ask(session=(session_id, 1)).topics == []
    second.append(batch(b"v"), acks=1, now_ms=NOW_MS)
    fetched = cluster.one(session=(session_id, 2))
    assert (fetched.partition, offsets(fetched), fetched.high_watermark) == (1, [0], 0)
    fetched = cluster.one(at(1, 1), session=(session_id, 3))
    assert (fetched.partition, offsets(fetched), fetched.high_watermark) == (1, [], 1), "its own fetch committed it"
    assert cluster.ask(session=(session_id, 4)).topics == []


def test_records_are_sent_until_the_follower_names_the_next_offset() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0))
    cluster.appended(1)
    for epoch in (1, 2):
        assert offsets(cluster.one(session=(session_id, epoch))) == [0]
    assert cluster.ask(at(1), session=(session_id, 3)).topics == []


def test_partition_that_did_not_fit_is_sent_next_and_the_one_before_goes_behind() -> None:
    cluster = Cluster()
    for number in (1, 2):
        cluster.add_partition(number)
    session_id = opened(cluster, at(0), at(0, 1), at(0, 2))
    for partition in cluster.replicas.partitions.values():
        partition.append(batch(b"v"), acks=1, now_ms=NOW_MS)
    order = [
        cluster.one(*named, session=(session_id, epoch), max_bytes=1).partition
        for epoch, named in enumerate([(), (at(1),), (at(1, 1),)], start=1)
    ]
    assert order == [0, 1, 2]


def test_session_faults() -> None:
    cluster = Cluster()
    assert cluster.ask(session=(5, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session_id = opened(cluster, at(0))
    assert cluster.ask(session=(session_id, 2)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cluster.ask(session=(session_id + 1, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cluster.ask(session=(session_id, 1)).error_code == 0


def test_new_session_takes_the_place_of_the_old_one() -> None:
    cluster = Cluster()
    first = opened(cluster, at(0))
    second = opened(cluster, at(0))
    assert cluster.ask(session=(first, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cluster.ask(session=(second, 1)).error_code == 0


def test_fetch_without_a_session_is_served_too() -> None:
    cluster = Cluster(state_of(1, 2))
    cluster.appended(1)
    answer = cluster.ask(at(1), session=(0, -1))
    assert (answer.session_id, cluster.high_watermark) == (0, 1)
    assert cluster.ask(session=(0, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_forgotten_partition_is_not_sent_and_no_longer_counts_as_fetched() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0))
    cluster.ask(at(0), follower=3)
    cluster.ask(session=(session_id, 1), forgotten=[0])
    cluster.hand.advance(LAG_MS + 1)
    cluster.ask(session=(session_id, 2))
    cluster.ask(at(0), follower=3)
    cluster.appended(1)
    assert cluster.ask(session=(session_id, 3)).topics == []
    cluster.shrink()
    assert cluster.writes[0].isr == (1, 3)


def test_new_session_without_a_partition_no_longer_fetches_it() -> None:
    cluster = Cluster()
    cluster.add_partition(1)
    opened(cluster, at(0), at(0, 1))
    assert cluster.partition.followers[2].fetches is not None
    opened(cluster, at(0, 1))
    assert cluster.partition.followers[2].fetches is None


def test_idle_partition_stays_in_sync_without_being_named() -> None:
    cluster = Cluster(state_of(1, 2, replicas=(1, 2)))
    session_id = opened(cluster, at(0))
    for epoch in range(1, 10):
        cluster.hand.advance(LAG_MS // 2)
        cluster.ask(session=(session_id, epoch))
    cluster.appended(1)
    cluster.shrink()
    assert cluster.writes == []


def test_error_is_said_once_and_again_when_it_changes_or_the_partition_is_named() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0))
    cluster.replicas.apply_state(ORDERS, state_of(epoch=EPOCH + 1, version=1))
    assert cluster.one(session=(session_id, 1)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.ask(session=(session_id, 2)).topics == []
    assert cluster.one(at(0), session=(session_id, 3)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.one(at(0, epoch=EPOCH + 1), session=(session_id, 4)).error_code == 0
    assert cluster.partition.followers[2].log_end_offset == 0


def test_partition_that_the_leader_gets_later_is_served_without_being_named_again() -> None:
    cluster = Cluster(state_of(1, 2, replicas=(1, 2)))
    answer = cluster.ask(at(0), at(0, 1))
    assert answer.topics[0][1][1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    later = cluster.add_partition(1, state_of(1, 2, replicas=(1, 2)))
    assert cluster.one(session=(answer.session_id, 1)).error_code == 0
    assert later.followers[2].log_end_offset == 0


def test_partition_that_the_leader_gets_later_ends_the_wait() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0), at(0, 1))
    answer = waiting(cluster.send(session=(session_id, 1)))
    cluster.add_partition(1)
    cluster.hand.turn()
    assert answered(answer) == [(1, 0, [], 0)]


# Waiting


def test_new_record_ends_the_wait_at_the_end_of_the_turn() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0))
    answer = waiting(cluster.send(session=(session_id, 1)))
    assert not answer.holds, "a fetch that says what is durable comes behind it"
    cluster.appended(2)
    waiting(answer)
    cluster.hand.turn()
    assert answered(answer) == [(0, 0, [0, 1], 0)]
    assert cluster.hand.waiting.fetches.delayed == 0


def test_news_of_the_high_watermark_ends_the_wait() -> None:
    cluster = Cluster()
    cluster.appended(1)
    session_id = opened(cluster, at(1))
    answer = waiting(cluster.send(session=(session_id, 1)))
    cluster.ask(at(1), follower=3)
    waiting(answer)
    cluster.hand.turn()
    assert answered(answer) == [(0, 0, [], 1)]


def test_fetch_that_moves_the_high_watermark_is_answered_at_once() -> None:
    cluster = Cluster(state_of(1, 2))
    session_id = opened(cluster, at(0))
    answer = waiting(cluster.send(session=(session_id, 1)))
    cluster.appended(1)
    cluster.hand.turn()
    assert answered(answer) == [(0, 0, [0], 0)]
    assert cluster.one(at(1), session=(session_id, 2)).high_watermark == 1
    waiting(cluster.send(session=(session_id, 3)))


def test_lost_leadership_ends_the_wait() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0))
    answer = waiting(cluster.send(session=(session_id, 1)))
    cluster.replicas.apply_state(ORDERS, state_of(leader=3, epoch=EPOCH + 1, version=1))
    cluster.hand.turn()
    assert answered(answer) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, [], -1)]


def test_election_ends_the_wait_of_a_follower_that_heard_of_it_first() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0, epoch=EPOCH + 1))
    answer = waiting(cluster.send(session=(session_id, 1)))
    cluster.replicas.apply_state(ORDERS, state_of(epoch=EPOCH + 1, version=1))
    cluster.hand.turn()
    assert answered(answer) == [(0, 0, [], 0)]


def test_deleted_records_end_the_wait() -> None:
    cluster = Cluster(state_of(1, replicas=(1, 2)))
    cluster.live.clear()
    cluster.appended(3)
    session_id = opened(cluster, at(3))
    answer = waiting(cluster.send(session=(session_id, 1)))
    cluster.replicas.delete_records_before(cluster.partition, 2)
    cluster.hand.turn()
    (one,) = decode_fetched(answer, VERSION).topics[0][1]
    assert one.log_start_offset == 2


def test_wait_ends_in_time_with_nothing() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0))
    answer = waiting(cluster.send(session=(session_id, 1)))
    cluster.hand.advance(500)
    assert answered(answer) == []


def test_fetch_waits_for_min_bytes_of_records() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0))
    answer = waiting(cluster.send(session=(session_id, 1), min_bytes=100))
    cluster.appended(1)
    cluster.hand.turn()
    waiting(answer)
    cluster.appended(1)
    cluster.hand.turn()
    assert answered(answer) == [(0, 0, [0, 1], 0)]


def test_next_fetch_ends_the_wait_of_the_one_before() -> None:
    cluster = Cluster(state_of(1, 2), LogConfig())
    cluster.appended(1)
    session_id = opened(cluster, at(1, durable=0))
    first = waiting(cluster.send(session=(session_id, 1)))
    fetched = cluster.one(at(1, durable=1), session=(session_id, 2))
    assert answered(first) == []
    assert fetched.high_watermark == 1
    assert cluster.hand.waiting.fetches.delayed == 0


def test_fetch_on_a_new_connection_ends_the_wait_on_the_old_one() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0))
    old = waiting(cluster.send(session=(session_id, 1)))
    cluster.appended(1)
    answer = cluster.ask(at(0))
    assert old.is_complete
    assert offsets(answer.topics[0][1][0]) == [0]
    assert offsets(cluster.one(session=(answer.session_id, 1))) == [0]


def test_abandoned_wait_leaves_nothing_behind() -> None:
    cluster = Cluster()
    session_id = opened(cluster, at(0))
    answer = waiting(cluster.send(session=(session_id, 1)))
    answer.abandon()
    assert cluster.hand.waiting.fetches.delayed == cluster.hand.waiting.fetches.watched == 0
    cluster.appended(1)
    cluster.hand.turn()
    assert answer.answer is None


def test_waiting_follower_has_one_place_whatever_the_number_of_its_partitions() -> None:
    cluster = Cluster()
    for number in range(1, 50):
        cluster.add_partition(number)
    session_id = opened(cluster, *(at(0, number) for number in range(50)))
    waiting(cluster.send(session=(session_id, 1)))
    assert cluster.hand.waiting.fetches.watched == 1
    assert not cluster.fetches_of(2).news


def calls_of_a_fetch(partitions: int) -> int:
    """Python functions called for a record of one partition: its append, the answer, the fetch that commits it."""
    cluster = Cluster(state_of(1, 2, replicas=(1, 2)))
    for number in range(1, partitions):
        cluster.add_partition(number, state_of(1, 2, replicas=(1, 2)))
    session_id = opened(cluster, *(at(0, number) for number in range(partitions)))
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        answer = waiting(cluster.send(session=(session_id, 1)))
        cluster.appended(1)
        cluster.hand.turn()
        fetched = cluster.one(at(1), session=(session_id, 2))
    finally:
        sys.setprofile(None)
    assert (answer.is_complete, fetched.high_watermark) == (True, 1)
    return calls


def test_idle_partitions_cost_nothing() -> None:
    assert calls_of_a_fetch(1000) <= 1.1 * calls_of_a_fetch(10)


def test_appends_of_one_turn_are_one_answer_and_refused_growth_does_not_matter() -> None:
    cluster = Cluster(state_of(1, 3))
    session_id = opened(cluster, at(0))
    for write in cluster.writes:
        write.answer(REFUSED)
    answer = waiting(cluster.send(session=(session_id, 1)))
    for _ in range(3):
        cluster.appended(1)
    cluster.hand.turn()
    assert bytes_of(answer)
    assert answered(answer) == [(0, 0, [0, 1, 2], 0)]
