"""A new leader's log is compared before it is read (KIP-320): what is sound, what was cut off, and who is asked."""

from collections.abc import Callable

import pytest

from ottla.clients.consumer.errors import LogTruncation, TopicAuthorizationFailed
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.records.build import build_batch
from ottla.records.header import patch_base_offset_and_epoch
from tests.clients.consumer.rig import Rig
from tests.clients.fake_network import Sent

PLACE = TopicPartition("t", 0)


class Log:
    """A partition whose records know the epoch they were written in; it can lose its end and grow another one."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.records: list[tuple[int, bytes]] = []
        self.codes: list[int] = []  # of the next answers about epochs
        rig.network.leader_epochs[PLACE] = 1
        rig.network.serve(ApiKey.FETCH, self._fetch)
        rig.network.serve(ApiKey.OFFSET_FOR_LEADER_EPOCH, self._end_of_epoch)

    def put(self, epoch: int, *values: bytes) -> None:
        self.records += [(epoch, value) for value in values]

    def elect(self, epoch: int, *, keeps: int) -> None:
        """A new leader, which has only the first records; clients are not told."""
        del self.records[keeps:]
        self.rig.network.leader_epochs[PLACE] = epoch

    def _fetch(self, sent: Sent) -> ApiMessage | None:
        asked = [part for topic in sent.message.topics for part in topic.partitions]
        if not asked:
            return None
        part = PartitionData(partition_index=0, high_watermark=len(self.records))
        if 0 <= asked[0].current_leader_epoch < self.rig.network.leader_epochs[PLACE]:
            part.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif asked[0].fetch_offset > len(self.records):
            part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif asked[0].fetch_offset == len(self.records):
            part.records = b""
        else:
            part.records = b"".join(
                self._batch(offset, *self.records[offset]) for offset in range(asked[0].fetch_offset, len(self.records))
            )
        answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])
        if not part.error_code and not part.records:
            sent.answer(answer, after_ms=sent.message.max_wait_ms)
            return None
        return answer

    def _batch(self, offset: int, epoch: int, value: bytes) -> bytes:
        batch = bytearray(build_batch([(0, None, value, ())]))
        patch_base_offset_and_epoch(batch, 0, base_offset=offset, leader_epoch=epoch)
        return bytes(batch)

    def _end_of_epoch(self, sent: Sent) -> ApiMessage:
        assert sent.message.replica_id == -1
        asked = sent.message.topics[0].partitions[0]
        end = EpochEndOffset(partition=0)
        if self.codes:
            end.error_code = self.codes.pop(0)
        else:
            older = [index for index, (epoch, _) in enumerate(self.records) if epoch <= asked.leader_epoch]
            if older:
                end.end_offset, end.leader_epoch = older[-1] + 1, self.records[older[-1]][0]
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

    @property
    def asked(self) -> list[tuple[int, int]]:
        """The epochs that were asked for, each with the leader's as the consumer knows it."""
        parts = [sent.message.topics[0].partitions[0] for sent in self.rig.network.of(ApiKey.OFFSET_FOR_LEADER_EPOCH)]
        return [(part.leader_epoch, part.current_leader_epoch) for part in parts]


def read_three(**settings: str) -> tuple[Rig, Log]:
    """A consumer that has read three records of epoch 1."""
    rig = Rig(**settings)
    log = Log(rig)
    log.put(1, b"a", b"b", b"c")
    rig.session.assign([PLACE])
    if settings.get("auto_offset_reset") == "none":
        rig.core.seek(PLACE, OffsetAndMetadata(0))
    assert rig.values(1_000) == [b"a", b"b", b"c"]
    return rig, log


def read_until(rig: Rig, is_done: Callable[[list[bytes]], bool]) -> list[bytes]:
    values: list[bytes] = []
    for _ in range(50):
        values += rig.values(1_000)
        if is_done(values):
            return values
    raise AssertionError(f"only {values} came")


def test_nothing_is_asked_while_the_leader_stays() -> None:
    rig, log = read_three()
    log.put(1, b"d")
    assert read_until(rig, bool) == [b"d"]
    assert log.asked == []


def test_a_position_that_the_new_leader_has_is_read_on() -> None:
    rig, log = read_three()
    log.elect(2, keeps=3)
    log.put(2, b"d")
    assert read_until(rig, bool) == [b"d"]
    assert log.asked == [(1, 2)]
    log.put(2, b"e")
    assert read_until(rig, bool) == [b"e"]
    assert log.asked == [(1, 2)]  # once for each leader


def test_after_a_truncation_reading_goes_on_where_the_logs_part() -> None:
    rig, log = read_three()
    log.elect(2, keeps=1)
    log.put(2, b"B", b"C", b"D")
    assert read_until(rig, lambda values: len(values) == 3) == [b"B", b"C", b"D"]


def test_a_truncation_is_raised_where_no_position_may_be_chosen() -> None:
    rig, log = read_three(auto_offset_reset="none")
    log.elect(2, keeps=1)
    log.put(2, b"B", b"C", b"D")
    with pytest.raises(
        LogTruncation, match="t-0: read up to offset 3, the new leader's log differs from offset 1"
    ) as e:
        read_until(rig, bool)
    assert (e.value.topic_partitions, e.value.positions, e.value.divergent_offset) == ((PLACE,), {PLACE: 3}, 1)
    rig.core.seek(PLACE, OffsetAndMetadata(e.value.divergent_offset or 0))
    assert read_until(rig, bool) == [b"B", b"C", b"D"]


def test_a_leader_that_knows_nothing_of_the_epoch_leads_to_a_reset() -> None:
    rig, log = read_three()
    log.elect(2, keeps=0)
    log.put(2, b"A", b"B", b"C", b"D")
    assert read_until(rig, lambda values: len(values) == 4) == [b"A", b"B", b"C", b"D"]


def test_without_a_reset_an_unknown_divergence_is_raised_as_such() -> None:
    rig, log = read_three(auto_offset_reset="none")
    log.elect(2, keeps=0)
    log.put(2, b"A")
    with pytest.raises(LogTruncation, match="somewhere before that") as raised:
        read_until(rig, bool)
    assert raised.value.divergent_offset is None


def test_what_was_fetched_before_the_change_is_handed_out_and_then_compared() -> None:
    rig = Rig(max_poll_records=1)
    log = Log(rig)
    log.put(1, b"a", b"b", b"c")
    rig.session.assign([PLACE])
    assert rig.values(1_000) == [b"a"]
    log.elect(2, keeps=2)
    log.put(2, b"C")
    rig.core.metadata.request_update()
    rig.network.advance(1_000)
    assert log.asked == []  # the position is still about to move
    assert read_until(rig, lambda values: len(values) == 3) == [b"b", b"c", b"C"]
    assert log.asked == [(1, 2)]


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
def test_a_leader_that_is_not_ready_is_asked_again(code: ErrorCode) -> None:
    rig, log = read_three()
    log.codes = [code, code]
    log.elect(2, keeps=3)
    log.put(2, b"d")
    assert read_until(rig, bool) == [b"d"]
    assert len(log.asked) == 3


def test_a_refusal_is_raised() -> None:
    rig, log = read_three()
    log.codes = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    log.elect(2, keeps=3)
    log.put(2, b"d")
    with pytest.raises(TopicAuthorizationFailed, match="t-0: is the position 3 still valid"):
        read_until(rig, bool)
    assert read_until(rig, bool) == [b"d"]


def test_brokers_that_cannot_tell_are_read_without_it() -> None:
    rig, log = read_three()
    rig.network.unserved.add(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    log.elect(2, keeps=3)
    log.put(2, b"d")
    assert read_until(rig, bool) == [b"d"]


def test_an_answer_to_an_older_position_counts_for_nothing() -> None:
    rig, log = read_three()
    rig.network.serve(ApiKey.OFFSET_FOR_LEADER_EPOCH, lambda sent: None)
    log.elect(2, keeps=1)
    log.put(2, b"B", b"C", b"D")
    rig.values(1_000)
    assert rig.values(2_000) == []
    held = rig.network.held(ApiKey.OFFSET_FOR_LEADER_EPOCH)[0]
    rig.core.seek(PLACE, OffsetAndMetadata(2))
    assert read_until(rig, bool) == [b"C", b"D"]
    held.answer(log._end_of_epoch(held))
    rig.network.run()
    assert rig.core.subscription.state_of(PLACE).position == 4


def test_an_offset_that_was_committed_under_another_leader_is_compared() -> None:
    rig = Rig()
    log = Log(rig)
    log.put(1, b"a")
    log.elect(3, keeps=1)
    log.put(3, b"B", b"C")
    rig.session.assign([PLACE])
    rig.core.seek(PLACE, OffsetAndMetadata(2, "", 1))
    assert read_until(rig, bool) == [b"B", b"C"]
    assert log.asked == [(1, 3)]


def test_columns_remember_the_epoch_of_what_was_read() -> None:
    rig = Rig()
    log = Log(rig)
    log.put(1, b"a", b"b")
    rig.session.assign([PLACE])
    assert rig.run(rig.session.poll_fetched(1_000)) is not None
    assert rig.core.subscription.state_of(PLACE).position_epoch == 1
    log.elect(2, keeps=1)
    log.put(2, b"B")
    wanted = None
    while wanted is None:
        wanted = rig.run(rig.session.poll_fetched(1_000))
    assert (wanted.from_offset, wanted.next_offset) == (1, 2)
