"""Produce 3-11: batches into logs, answered at once or when the promise of `acks` and of the flush mode is kept.

Versions 0-2 are advertised, because librdkafka drops lz4 otherwise, and refused with error 35 for each partition: they
carry formats that are not stored. Transactional batches are refused with error 48.
"""

from collections.abc import Callable, Sequence
from struct import error as struct_error
from typing import NamedTuple, NoReturn

from ottla.broker.known_heads import HEAD_POSITION, KnownHead, KnownHeads, records_after
from ottla.broker.produce_preparation import needs_preparation, prepare, prepare_at_once
from ottla.controller.topic_names import INTERNAL_TOPICS
from ottla.core.clock import Background, Clock
from ottla.core.errors import ErrorCode, ProtocolViolation, StorageError
from ottla.core.exchange import Answer, Deferred, Peer
from ottla.core.types import NO_TIMESTAMP_MS
from ottla.protocol.frames import parse_request_header
from ottla.protocol.produce_codec import (
    PartitionRecords,
    ProducedPartition,
    TopicKey,
    decode_produce_request,
    encode_produce_response,
)
from ottla.records.validate import ProduceFault, check_produced
from ottla.records.walk import has_wrong_maximum
from ottla.replication.delayed_produce import ProduceWait
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.log_config import LogConfig

FIRST_SERVED_VERSION = 3
LAST_SERVED_VERSION = 11

_ALL = -1
_ATTRIBUTES_POSITION = 22  # the low byte, which has the transactional bit
_TRANSACTIONAL_BIT = 0x10
_SPECIAL_BITS = _TRANSACTIONAL_BIT | 0x07  # or compressed
_AS_SENT = "producer"

# Records as they came, or what the preparation made of them.
_Sent = Sequence[tuple[TopicKey, Sequence[PartitionRecords]]]
_Topics = _Sent | Sequence[tuple[TopicKey, Sequence[tuple[int, memoryview | ProduceFault | None]]]]
_Answers = list[tuple[TopicKey, list[ProducedPartition]]]


class _Asked(NamedTuple):
    """What a request says beside its records."""

    version: int
    correlation_id: int
    acks: int
    timeout_ms: int


class ProduceHandler:
    """The first half of a produce (order and append) is one call; only the answer may wait."""

    def __init__(
        self,
        replicas: Replicas,
        background: Background,
        clock: Clock,
        *,
        on_answered: Callable[[_Answers], None] | None = None,
    ) -> None:
        self._replicas = replicas
        self._background = background
        self._clock = clock
        self._on_answered = on_answered  # metrics; not called on the short way, which has no errors
        self._heads = KnownHeads(LAST_SERVED_VERSION + 1)

    def handle_frame(
        self, frame: memoryview, version: int, correlation_id: int, peer: Peer
    ) -> Answer | Deferred | None:
        head_end = peer.produce_head_end
        is_refused = False
        if 0 < head_end < len(frame):
            known = self._heads.find(version, bytes(frame[HEAD_POSITION:head_end]))
            if known is not None:
                answer = self._append_known(known, frame, version, correlation_id, head_end)
                if answer is not None:
                    return answer
                is_refused = True
        return self._handle_unknown(frame, version, correlation_id, peer, is_refused=is_refused)

    def _append_known(
        self, known: KnownHead, frame: memoryview, version: int, correlation_id: int, head_end: int
    ) -> Answer | Deferred | None:
        """The short way of a request whose head is known; None when only the long way can say what is wrong."""
        try:
            records = records_after(version, frame, head_end)
        except (struct_error, IndexError):
            return None
        if records is None or len(records) <= _ATTRIBUTES_POSITION:
            return None
        attributes = records[_ATTRIBUTES_POSITION]
        if attributes & _SPECIAL_BITS:
            if attributes & _TRANSACTIONAL_BIT or len(records) > known.compressed_max_bytes:
                return None
        elif len(records) > known.plain_max_bytes:
            return None
        if known.checks_maximum and has_wrong_maximum(records):
            return None
        partition = known.partition
        try:
            info = partition.append(records, now_ms=self._clock(), produce_version=version)
        except StorageError as error:
            self._replicas.on_storage_error(partition, error)
            return None
        first_offset, last_offset, append_time_ms, log_start_offset, error_code, _, _, is_duplicate = info
        if error_code or is_duplicate:
            return None  # nothing was changed, so it can be looked at once more
        self._replicas.after_append(partition)
        if partition.high_watermark > last_offset or (known.acks != _ALL and partition.own_share > last_offset):
            return known.pack(correlation_id, first_offset, append_time_ms, log_start_offset)
        topic, index = partition.topic_partition
        produced = [ProducedPartition(index, 0, first_offset, append_time_ms, log_start_offset)]
        wait = ProduceWait(partition, next_offset=last_offset + 1)
        asked = _Asked(version, correlation_id, known.acks, known.timeout_ms)
        return self._await_promise([(topic, produced)], [(wait, produced, 0)], asked, is_tried=True)

    def _handle_unknown(
        self, frame: memoryview, version: int, correlation_id: int, peer: Peer, *, is_refused: bool
    ) -> Answer | Deferred | None:
        """The long way; `is_refused`: the short way did not take the request, so what is compressed is not small."""
        header = parse_request_header(frame)
        _, acks, timeout_ms, topics = decode_produce_request(frame, header.body_position, version)
        asked = _Asked(version, correlation_id, acks, timeout_ms)
        if not -1 <= acks <= 1:
            return self._refuse_all(topics, asked, ErrorCode.INVALID_REQUIRED_ACKS)
        if version < FIRST_SERVED_VERSION:
            return self._refuse_all(topics, asked, ErrorCode.UNSUPPORTED_VERSION)
        peer.produce_head_end = self._learn(frame, topics, asked)
        if not self._needs_preparation(topics):
            return self._append(topics, asked, is_prepared=False)
        prepared = None if is_refused else self._prepare_at_once(topics, asked)
        if prepared is not None:
            return self._append(prepared, asked, is_prepared=True)
        return self._prepare_then_append(topics, asked)

    def _learn(self, frame: memoryview, topics: _Sent, asked: _Asked) -> int:
        """Remember the head of a request that took the long way for nothing; 0 if it is not one of those."""
        if asked.acks == 0 or len(topics) != 1 or len(topics[0][1]) != 1:
            return 0
        topic = topics[0][0]
        index, records = topics[0][1][0]
        partition = self._replicas.partitions.get((topic, index))  # type: ignore[arg-type]
        if partition is None or records is None or partition.is_offline or topic in INTERNAL_TOPICS:
            return 0
        if partition.state.leader != self._replicas.broker_id:
            return 0
        config = partition.log.config
        is_plain = config.compression_type == _AS_SENT and not config.compact
        if not is_plain or (asked.acks == _ALL and not partition.has_enough_in_sync_replicas):
            return 0
        return self._heads.learn(asked.version, frame, records, partition, acks=asked.acks, timeout_ms=asked.timeout_ms)

    def _append(self, topics: _Topics, asked: _Asked, *, is_prepared: bool) -> Answer | Deferred | None:
        replicas = self._replicas
        partitions_by_key = replicas.partitions
        broker_id = replicas.broker_id
        now_ms = self._clock()
        acks = asked.acks
        # The version limits what the client may send; what the preparation made of it is our own.
        produce_version = LAST_SERVED_VERSION if is_prepared else asked.version
        answers: _Answers = []
        waits: list[tuple[ProduceWait, list[ProducedPartition], int]] = []
        for topic, entries in topics:
            produced: list[ProducedPartition] = []
            for index, records in entries:
                partition = partitions_by_key.get((topic, index))  # type: ignore[arg-type]
                if (
                    partition is None
                    or partition.state.leader != broker_id
                    or topic in INTERNAL_TOPICS
                    or records is None
                ):
                    produced.append(self._refuse(topic, index))
                    continue
                if isinstance(records, ProduceFault):
                    produced.append(_faulty(index, records.error_code, records.message, records.record_indexes))
                    continue
                answer = self._append_one(partition, records, acks, produce_version, now_ms, is_prepared)
                if acks and not answer.error_code:
                    next_offset = partition.log.log_end_offset
                    reached = partition.high_watermark if acks == _ALL else partition.own_share
                    if reached < next_offset:
                        wait = ProduceWait(partition, next_offset=next_offset)
                        waits.append((wait, produced, len(produced)))
                produced.append(answer)
            answers.append((topic, produced))
        if waits:
            return self._await_promise(answers, waits, asked)
        return self._encode(answers, asked)

    def _encode(self, answers: _Answers, asked: _Asked) -> bytes | None:
        if self._on_answered is not None:
            self._on_answered(answers)
        if asked.acks == 0:
            _close_on_error(answers)
            return None
        return encode_produce_response(asked.version, asked.correlation_id, answers)

    def _refuse_all(self, topics: _Topics, asked: _Asked, error_code: ErrorCode) -> bytes | None:
        answers = [(topic, [_refused(index, error_code, None) for index, _ in entries]) for topic, entries in topics]
        return self._encode(answers, asked)

    def _append_one(
        self,
        partition: Partition,
        records: memoryview,
        acks: int,
        produce_version: int,
        now_ms: int,
        is_prepared: bool,
    ) -> ProducedPartition:
        index = partition.topic_partition.partition
        if partition.is_offline:
            return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this partition is offline")
        if len(records) > _ATTRIBUTES_POSITION and records[_ATTRIBUTES_POSITION] & _TRANSACTIONAL_BIT:
            limits = partition.log.config.produce_limits
            fault = check_produced(records, limits, produce_version=produce_version, now_ms=now_ms)
            if isinstance(fault, ProduceFault):
                # First of all a batch has to be sound: else the bit may be a flipped one.
                return _faulty(index, fault.error_code, fault.message, fault.record_indexes)
            return _refused(index, ErrorCode.INVALID_TXN_STATE, "transactions are not served")
        if acks == _ALL and not partition.has_enough_in_sync_replicas:
            return _refused(index, ErrorCode.NOT_ENOUGH_REPLICAS, partition.describe_in_sync_replicas())
        try:
            info = partition.append(
                records, now_ms=now_ms, produce_version=produce_version, is_checked_deeply=is_prepared
            )
        except StorageError as error:
            self._replicas.on_storage_error(partition, error)
            return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if info.error_code:
            return _faulty(index, info.error_code, info.error_message, info.record_indexes)
        if not info.is_duplicate:
            self._replicas.after_append(partition)
        return ProducedPartition(index, 0, info.first_offset, info.append_time_ms, info.log_start_offset)

    def _refuse(self, topic: TopicKey, index: int) -> ProducedPartition:
        if topic in INTERNAL_TOPICS:
            return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic!s} is written by the broker alone")
        found = self._replicas.find(topic, index) if isinstance(topic, str) else ErrorCode.UNKNOWN_TOPIC_ID
        if isinstance(found, ErrorCode):
            return _refused(index, found, None)
        return _refused(index, ErrorCode.INVALID_RECORD, "no batch; exactly one is expected")

    def _await_promise(
        self,
        answers: _Answers,
        waits: list[tuple[ProduceWait, list[ProducedPartition], int]],
        asked: _Asked,
        *,
        is_tried: bool = False,
    ) -> Deferred:
        deferred = Deferred(holds=False)

        def on_done() -> None:
            for wait, produced, position in waits:
                if wait.error_code:
                    partition = produced[position].partition
                    produced[position] = _refused(partition, wait.error_code, "appended, but the promise is not kept")
            deferred.complete(self._encode(answers, asked))

        operation = self._replicas.await_promise(
            [wait for wait, _, _ in waits],
            needs_all_replicas=asked.acks == _ALL,
            timeout_ms=asked.timeout_ms,
            on_done=on_done,
            is_tried=is_tried,
        )
        deferred.on_abandon = operation.abandon
        return deferred

    def _needs_preparation(self, topics: _Sent) -> bool:
        partitions_by_key = self._replicas.partitions
        for topic, entries in topics:
            for index, records in entries:
                partition = partitions_by_key.get((topic, index))  # type: ignore[arg-type]
                if partition is not None and records is not None and needs_preparation(records, partition.log.config):
                    return True
        return False

    def _prepare_at_once(self, topics: _Sent, asked: _Asked) -> _Topics | None:
        partitions_by_key = self._replicas.partitions
        batches: list[tuple[memoryview | None, LogConfig | None]] = []
        for topic, entries in topics:
            for index, records in entries:
                partition = partitions_by_key.get((topic, index))  # type: ignore[arg-type]
                batches.append((records, None if partition is None else partition.log.config))
        prepared = prepare_at_once(batches, produce_version=asked.version, now_ms=self._clock())
        if prepared is None:
            return None
        in_order = iter(prepared)
        return [(topic, [(index, next(in_order)) for index, _ in entries]) for topic, entries in topics]

    def _prepare_then_append(self, topics: _Sent, asked: _Asked) -> Deferred:
        """Prepare on a thread. The request holds its connection, so that a later one can't overtake it."""
        now_ms = self._clock()
        kept: list[tuple[TopicKey, list[tuple[int, memoryview | None, LogConfig | None]]]] = []
        for topic, entries in topics:
            kept.append((topic, []))
            for index, records in entries:
                partition = self._replicas.partitions.get((topic, index))  # type: ignore[arg-type]
                copied = None if records is None else memoryview(bytearray(records))
                kept[-1][1].append((index, copied, None if partition is None else partition.log.config))
        deferred = Deferred(holds=True)

        def work() -> _Topics:
            return [
                (
                    topic,
                    [
                        (index, prepare(records, config, produce_version=asked.version, now_ms=now_ms))
                        for index, records, config in entries
                    ],
                )
                for topic, entries in kept
            ]

        def on_done(prepared: _Topics, error: BaseException | None) -> None:
            if error is not None:
                deferred.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))
                return
            try:
                answer = self._append(prepared, asked, is_prepared=True)
            except ProtocolViolation as violation:  # refused under acks=0
                deferred.fail(violation)
                return
            if isinstance(answer, Deferred) and answer.is_complete:
                deferred.complete(answer.answer)  # its directory failed before it could begin to wait
            elif isinstance(answer, Deferred):
                answer.on_complete = lambda inner: deferred.complete(inner.answer)
                deferred.on_abandon = answer.abandon
            else:
                deferred.complete(answer)

        self._background.submit(work, on_done)
        return deferred


def _refused(index: int, error_code: ErrorCode, message: str | None) -> ProducedPartition:
    return ProducedPartition(index, error_code, -1, NO_TIMESTAMP_MS, -1, (), message)


def _faulty(
    index: int, error_code: ErrorCode, message: str | None, record_indexes: tuple[int, ...]
) -> ProducedPartition:
    """Refused for what is in the batch; names the records where single ones are at fault (KIP-467)."""
    errors = [(position, message) for position in record_indexes]
    return ProducedPartition(index, error_code, -1, record_errors=errors, error_message=message)


def _close_on_error(answers: _Answers) -> None:
    """With acks=0 nobody reads an answer: closing the connection is the only way to tell."""
    for topic, produced in answers:
        for answer in produced:
            if answer.error_code:
                _tell_by_closing(topic, answer)


def _tell_by_closing(topic: TopicKey, answer: ProducedPartition) -> NoReturn:
    name = ErrorCode(answer.error_code).name
    raise ProtocolViolation(f"produce with acks=0 to {topic!s}-{answer.partition}: {name} {answer.error_message or ''}")
