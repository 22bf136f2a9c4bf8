"""ListOffsets 1-8: the first, the last, the newest by timestamp (KIP-734), or the first at or after a time.

-4 (the first offset that is local) equals the first offset: all of a log is on this disk. For a time, a batch has to be
opened; one that is large or compressed is opened on a thread, and the request holds its connection meanwhile.

After an election the leader does not know yet how far its predecessor had come: an answer that could be smaller than an
earlier one is error 78 until it does (KIP-207).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ottla.broker.api import Reply, RequestContext
from ottla.core.clock import Background
from ottla.core.errors import ErrorCode, StorageError
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.log_results import TimestampOffset
from ottla.storage.timestamp_lookup import BatchToOpen

_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_READ_COMMITTED = 1
_SINCE_VERSION = {_LATEST: 1, _EARLIEST: 1, _MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8}
_NEVER = 1 << 15
_FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5

T = TypeVar("T")


class _Question(NamedTuple):
    """One partition of a request, and the place of its answer."""

    partition: Partition
    timestamp: int
    is_committed: bool
    response: ListOffsetsPartitionResponse
    version: int


class ListOffsetsHandler:
    def __init__(self, replicas: Replicas, background: Background) -> None:
        self._replicas = replicas
        self._background = background

    def handle(self, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse | Reply:
        is_committed = request.isolation_level == _READ_COMMITTED
        response = ListOffsetsResponse()
        to_open: list[tuple[_Question, BatchToOpen]] = []
        for topic in request.topics:
            answers = ListOffsetsTopicResponse(name=topic.name)
            response.topics.append(answers)
            for wanted in topic.partitions:
                answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
                answers.partitions.append(answer)
                partition = self._check(topic.name, wanted, context.version)
                if isinstance(partition, ErrorCode):
                    answer.error_code = partition
                    continue
                question = _Question(partition, wanted.timestamp, is_committed, answer, context.version)
                batch = self._answer_or_find_batch(question)
                if batch is not None:
                    to_open.append((question, batch))
        return self._open_batches(to_open, response, context) if to_open else response

    def _check(self, topic: str, wanted: ListOffsetsPartition, version: int) -> Partition | ErrorCode:
        if wanted.timestamp < 0 and version < _SINCE_VERSION.get(wanted.timestamp, _NEVER):
            return ErrorCode.UNSUPPORTED_VERSION
        partition = self._replicas.find(topic, wanted.partition_index)
        if isinstance(partition, ErrorCode):
            return partition
        return partition.check_leader_epoch(wanted.current_leader_epoch) or partition

    def _answer_or_find_batch(self, question: _Question) -> BatchToOpen | None:
        """Answer now, or say which batch has to be opened on a thread first."""
        partition, timestamp, is_committed, response, _ = question
        log = partition.log
        if timestamp == _LATEST:
            if not partition.is_latest_offset_known:
                _say_not_available(question)
                return None
            response.offset = _limit(partition, is_committed)
            response.leader_epoch = partition.state.leader_epoch
        elif timestamp in (_EARLIEST, _EARLIEST_LOCAL):
            response.offset = log.log_start_offset
            response.leader_epoch = log.leader_epochs.epoch_of(log.log_start_offset)
        else:
            wanted_ms = None if timestamp == _MAX_TIMESTAMP else timestamp
            batch = self._guard(question, lambda: log.batch_for_timestamp(wanted_ms))
            if batch is not None:
                if not batch.is_cheap:
                    return batch
                self._answer_by_time(question, batch.look())
            elif not partition.is_latest_offset_known and not response.error_code:
                _say_not_available(question)
        return None

    def _answer_by_time(self, question: _Question, found: TimestampOffset | None) -> None:
        if found is None:
            # What its header says is below the log's start, or can't be read: rare enough for the long way.
            log = question.partition.log
            timestamp = question.timestamp
            found = self._guard(
                question,
                lambda: (
                    log.offset_of_max_timestamp()
                    if timestamp == _MAX_TIMESTAMP
                    else log.offset_for_timestamp(timestamp)
                ),
            )
        if found is not None and found.offset < _limit(question.partition, question.is_committed):
            response = question.response
            response.timestamp, response.offset, response.leader_epoch = found
        elif not question.partition.is_latest_offset_known and not question.response.error_code:
            _say_not_available(question)

    def _guard(self, question: _Question, look_up: Callable[[], T | None]) -> T | None:
        """A disk that fails is an answer; None then, and where nothing is found."""
        partition = question.partition
        if partition.is_offline:
            question.response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return None
        try:
            return look_up()
        except StorageError as error:
            self._replicas.on_storage_error(partition, error)
            question.response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return None

    def _open_batches(
        self, to_open: list[tuple[_Question, BatchToOpen]], response: ListOffsetsResponse, context: RequestContext
    ) -> Reply:
        reply = context.defer()

        def work() -> list[TimestampOffset | None]:
            return [batch.look() for _, batch in to_open]

        def on_done(found: list[TimestampOffset | None], error: BaseException | None) -> None:
            if error is not None:
                reply.deferred.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))
                return
            for (question, _), result in zip(to_open, found, strict=True):
                self._answer_by_time(question, result)
            reply.send(response)

        self._background.submit(work, on_done)
        return reply


def _say_not_available(question: _Question) -> None:
    is_known = question.version >= _FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
    question.response.error_code = ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE


def _limit(partition: Partition, is_committed: bool) -> int:
    return partition.last_stable_offset if is_committed else partition.high_watermark
