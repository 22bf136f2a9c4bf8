"""Produce 3-11: batches into logs, answered at once or when they are acknowledged as `acks` and the flush mode say.

What may be appended is the partition's to decide; here requests are read, waited for and answered. Versions 0-2 are
advertised, because librdkafka drops lz4 otherwise, and refused with error 35 for each partition: they carry formats
that are not stored.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import error as struct_error
from typing import NamedTuple, NoReturn

from ottla.broker.connection_notes import notes_of
from ottla.broker.known_heads import HEAD_BYTES_MAX, HEAD_POSITION, KnownHead, learn_head, records_after
from ottla.broker.produce_preparation import (
    PreparedBatch,
    is_for_a_thread,
    needs_preparation,
    prepare,
    prepare_at_once,
)
from ottla.broker.request_memo import RequestMemo
from ottla.core.clock import Background, Clock
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.exchange import Answer, Deferred, Peer
from ottla.protocol.frames import parse_request_header
from ottla.protocol.produce_codec import (
    PartitionRecords,
    ProducedPartition,
    TopicKey,
    decode_produce_request,
    encode_produce_response,
)
from ottla.records.validate import ProduceFault
from ottla.records.walk import has_wrong_maximum
from ottla.replication.acks_wait import AcksWait
from ottla.replication.replicas import Replicas
from ottla.storage.log_config import LogConfig
from ottla.storage.log_results import AppendInfo

FIRST_SERVED_VERSION = 3
LAST_SERVED_VERSION = 11

_KEEP_CODEC = "producer"  # compression.type of topics that store batches as they were sent

_Topics = Sequence[tuple[TopicKey, Sequence[PartitionRecords]]]
_Answers = list[tuple[TopicKey, list[ProducedPartition]]]
_Waits = list[tuple[AcksWait, list[ProducedPartition], int]]  # and where the answer of each is


class _Request(NamedTuple):
    """The fields of a request besides its records."""

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
        self._heads: RequestMemo[KnownHead] = RequestMemo(
            versions=LAST_SERVED_VERSION + 1, key_bytes_max=HEAD_BYTES_MAX
        )

    def handle_frame(
        self, frame: memoryview, version: int, correlation_id: int, peer: Peer
    ) -> Answer | Deferred | None:
        notes = peer.handler_notes
        head_end: int = 0 if notes is None else notes.produce_head_end
        is_refused = False
        if 0 < head_end < len(frame):
            head = bytes(frame[HEAD_POSITION:head_end])
            known = self._heads.by_version[version].get(head)
            if known is not None:
                if known.partition.log.config is known.config:
                    answer = self._append_known(known, frame, version, correlation_id, head_end)
                    if answer is not None:
                        return answer
                    # By a partition that takes nothing now, whatever it is: then the batch may well be small.
                    is_refused = known.partition.takes_from_clients(known.acks)
                self._heads.forget(version, head)  # the long way learns it anew, if it still leads to a partition
        return self._handle_unknown(frame, version, correlation_id, peer, is_refused=is_refused)

    def _append_known(
        self, known: KnownHead, frame: memoryview, version: int, correlation_id: int, head_end: int
    ) -> Answer | Deferred | None:
        """The short way of a request whose head is known; None when only the long way can say what is wrong."""
        try:
            records = records_after(version, frame, head_end)
        except (struct_error, IndexError):
            return None
        if records is None:
            return None
        if len(records) > known.inline_max_bytes and is_for_a_thread(records):
            return None
        if known.checks_maximum and has_wrong_maximum(records):
            return None
        info, wait = known.partition.append(records, acks=known.acks, now_ms=self._clock(), produce_version=version)
        if info.error_code:
            return None  # nothing was changed, so it can be looked at once more
        if wait is None:
            return known.pack(correlation_id, info.first_offset, info.append_time_ms, info.log_start_offset)
        topic, number = known.partition.topic_partition
        produced = [_answer_of(number, info)]
        request = _Request(version, correlation_id, known.acks, known.timeout_ms)
        return self._await_acks([(topic, produced)], [(wait, produced, 0)], request, is_tried=True)

    def _handle_unknown(
        self, frame: memoryview, version: int, correlation_id: int, peer: Peer, *, is_refused: bool
    ) -> Answer | Deferred | None:
        """The long way; `is_refused`: the short way did not take the batch, so if it is compressed, it is not small."""
        header = parse_request_header(frame)
        _, acks, timeout_ms, topics = decode_produce_request(frame, header.body_position, version)
        request = _Request(version, correlation_id, acks, timeout_ms)
        if not -1 <= acks <= 1:
            return self._refuse_all(topics, request, ErrorCode.INVALID_REQUIRED_ACKS)
        if version < FIRST_SERVED_VERSION:
            return self._refuse_all(topics, request, ErrorCode.UNSUPPORTED_VERSION)
        notes_of(peer).produce_head_end = self._learn(frame, topics, request)
        if not self._needs_preparation(topics):
            return self._append(topics, request)
        if not is_refused:
            prepared = prepare_at_once(self._with_configs(topics), produce_version=version, now_ms=self._clock())
            if prepared is not None:
                return self._append(topics, request, iter(prepared))
        return self._prepare_then_append(topics, request)

    def _learn(self, frame: memoryview, topics: _Topics, request: _Request) -> int:
        """Remember the head of a request that took the long way for nothing; 0 if it is not one of those."""
        if request.acks == 0 or len(topics) != 1 or len(topics[0][1]) != 1:
            return 0
        topic = topics[0][0]
        number, records = topics[0][1][0]
        partition = self._replicas.partitions.get((topic, number))  # type: ignore[arg-type]
        if partition is None or records is None:
            return 0
        config = partition.log.config
        if config.compact or config.compression_type != _KEEP_CODEC:
            return 0
        return learn_head(
            self._heads, request.version, frame, records, partition, acks=request.acks, timeout_ms=request.timeout_ms
        )

    def _append(
        self, topics: _Topics, request: _Request, prepared: Iterator[PreparedBatch] | None = None
    ) -> Answer | Deferred | None:
        """Append what was sent, or in its place what the preparation made of it, batch for batch."""
        replicas = self._replicas
        partitions_by_key = replicas.partitions
        now_ms = self._clock()
        acks = request.acks
        # The version limits what the client may send; what the preparation made of it is our own.
        produce_version = request.version if prepared is None else LAST_SERVED_VERSION
        answers: _Answers = []
        waits: _Waits = []
        records: memoryview | ProduceFault | None
        config: LogConfig | None = None
        for topic, entries in topics:
            produced: list[ProducedPartition] = []
            for number, records in entries:
                if prepared is not None:
                    records, config = next(prepared)
                partition = partitions_by_key.get((topic, number))  # type: ignore[arg-type]
                if partition is None:
                    produced.append(_answer_of(number, replicas.refuse_append(topic, number)))
                    continue
                info, wait = partition.append(
                    records, acks=acks, now_ms=now_ms, produce_version=produce_version, prepared_for=config
                )
                if wait is not None:
                    waits.append((wait, produced, len(produced)))
                produced.append(_answer_of(number, info))
            answers.append((topic, produced))
        if waits:
            return self._await_acks(answers, waits, request)
        return self._encode(answers, request)

    def _encode(self, answers: _Answers, request: _Request) -> bytes | None:
        if self._on_answered is not None:
            self._on_answered(answers)
        if request.acks == 0:
            _close_on_error(answers)
            return None
        return encode_produce_response(request.version, request.correlation_id, answers)

    def _refuse_all(self, topics: _Topics, request: _Request, error_code: ErrorCode) -> bytes | None:
        answers = [(topic, [_refused(number, error_code, None) for number, _ in entries]) for topic, entries in topics]
        return self._encode(answers, request)

    def _await_acks(self, answers: _Answers, waits: _Waits, request: _Request, *, is_tried: bool = False) -> Deferred:
        deferred = Deferred(holds=False)

        def on_done() -> None:
            for wait, produced, position in waits:
                if wait.error_code:
                    number = produced[position].partition
                    produced[position] = _refused(number, wait.error_code, "appended, but not acknowledged")
            deferred.complete(self._encode(answers, request))

        operation = self._replicas.await_acks(
            [wait for wait, _, _ in waits], timeout_ms=request.timeout_ms, on_done=on_done, is_tried=is_tried
        )
        deferred.on_abandon = operation.abandon
        return deferred

    # Preparation

    def _needs_preparation(self, topics: _Topics) -> bool:
        partitions_by_key = self._replicas.partitions
        for topic, entries in topics:
            for number, records in entries:
                partition = partitions_by_key.get((topic, number))  # type: ignore[arg-type]
                if partition is not None and records is not None and needs_preparation(records, partition.log.config):
                    return True
        return False

    def _with_configs(self, topics: _Topics) -> list[tuple[memoryview | None, LogConfig | None]]:
        """Every batch of a request, in its order, with the config that its partition has now."""
        partitions_by_key = self._replicas.partitions
        batches: list[tuple[memoryview | None, LogConfig | None]] = []
        for topic, entries in topics:
            for number, records in entries:
                partition = partitions_by_key.get((topic, number))  # type: ignore[arg-type]
                batches.append((records, None if partition is None else partition.log.config))
        return batches

    def _prepare_then_append(self, topics: _Topics, request: _Request) -> Deferred:
        """Prepare on a thread. The request holds its connection, so that a later one can't overtake it."""
        now_ms = self._clock()
        kept = [(topic, [(number, _copied(records)) for number, records in entries]) for topic, entries in topics]
        deferred = Deferred(holds=True)

        def start() -> None:
            batches = self._with_configs(kept)

            def work() -> list[PreparedBatch]:
                return [
                    prepare(records, config, produce_version=request.version, now_ms=now_ms)
                    for records, config in batches
                ]

            self._background.submit(work, on_done)

        def on_done(prepared: list[PreparedBatch], error: BaseException | None) -> None:
            if error is not None:
                deferred.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))
                return
            for batch, (_, config) in zip(prepared, self._with_configs(kept), strict=True):
                if config is not None and config is not batch.config:
                    start()  # its topic was made or configured meanwhile, and may want something else of it now
                    return
            try:
                answer = self._append(kept, request, iter(prepared))
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

        start()
        return deferred


def _copied(records: memoryview | None) -> memoryview | None:
    """The frame is valid only during the call."""
    return None if records is None else memoryview(bytearray(records))


def _answer_of(number: int, info: AppendInfo) -> ProducedPartition:
    if not info.error_code:
        return ProducedPartition(number, 0, info.first_offset, info.append_time_ms, info.log_start_offset)
    # Names the records at fault where single ones are (KIP-467).
    errors = [(position, info.error_message) for position in info.record_indexes]
    return ProducedPartition(number, info.error_code, -1, record_errors=errors, error_message=info.error_message)


def _refused(number: int, error_code: ErrorCode, message: str | None) -> ProducedPartition:
    return ProducedPartition(number, error_code, -1, error_message=message)


def _close_on_error(answers: _Answers) -> None:
    """With acks=0 nobody reads an answer: the connection is closed instead."""
    for topic, produced in answers:
        for answer in produced:
            if answer.error_code:
                _report_by_closing(topic, answer)


def _report_by_closing(topic: TopicKey, answer: ProducedPartition) -> NoReturn:
    name = ErrorCode(answer.error_code).name
    raise ProtocolViolation(f"produce with acks=0 to {topic!s}-{answer.partition}: {name} {answer.error_message or ''}")
