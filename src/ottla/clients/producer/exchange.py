"""Produce requests and their answers: encodes batches into a frame, decodes an answer for each batch."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ottla.clients.errors import ClientError, ConnectionFailed
from ottla.clients.network.port import Network
from ottla.clients.producer.batch import ProducerBatch
from ottla.clients.producer.handle import NO_OFFSET
from ottla.clients.producer.settings import ProducerSettings
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import NO_TIMESTAMP_MS, BrokerId, Buffer, Offset, TimestampMs
from ottla.protocol.apis import ApiKey
from ottla.protocol.produce_client_codec import decode_produce_response, encode_produce_request

# Batch format v2 begins with version 3; from 13 on topics have ids in place of names, which this client doesn't need.
_VERSIONS: Final = (3, 12)
# From 12 on a transactional batch adds its partition to the transaction implicitly, if the cluster allows that
# (KIP-890); this producer adds partitions explicitly, which every cluster supports.
_TRANSACTIONAL_VERSIONS: Final = (3, 11)


class BatchAnswer(NamedTuple):
    """The broker's answer for one batch."""

    error_code: int
    base_offset: Offset = NO_OFFSET
    append_time_ms: TimestampMs = NO_TIMESTAMP_MS
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    leader: tuple[int, int] | None = None  # broker and epoch, if the broker knows a newer leader (KIP-951)


OnAnswers: TypeAlias = Callable[[Sequence[BatchAnswer] | ClientError], None]

_LEFT_OUT: Final = BatchAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, error_message="left out of the broker's answer")
_HANDED_OVER: Final = BatchAnswer(ErrorCode.NONE)  # acks=0: there is no answer


class ProduceExchange:
    """Used in the client loop only."""

    def __init__(self, network: Network, settings: ProducerSettings) -> None:
        self._network = network
        self._settings = settings
        self._versions = _VERSIONS if settings.transactional_id is None else _TRANSACTIONAL_VERSIONS

    def send(self, broker_id: BrokerId, batches: Sequence[ProducerBatch], on_answers: OnAnswers) -> None:
        """Send all batches in one request, at most one per partition; `on_answers` gets the answers in that order."""
        settings = self._settings
        topics: dict[str, list[tuple[int, Buffer]]] = {}
        for batch in batches:
            data = batch.build(codec=settings.codec, level=settings.compression_level)
            topics.setdefault(batch.queue.topic_partition.topic, []).append(
                (batch.queue.topic_partition.partition, data)
            )

        def encode(version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
            return encode_produce_request(
                version,
                correlation_id,
                client_id,
                transactional_id=settings.transactional_id,
                acks=settings.acks,
                timeout_ms=settings.request_timeout_ms,
                topics=list(topics.items()),
            )

        def on_frame(version: int, frame: memoryview | ClientError) -> None:
            if isinstance(frame, ClientError):
                on_answers(frame)
            elif settings.acks == 0:
                on_answers([_HANDED_OVER] * len(batches))
            else:
                on_answers(self._decode(broker_id, version, frame, batches))

        self._network.request_frame(
            broker_id,
            ApiKey.PRODUCE,
            encode,
            on_frame,
            versions=self._versions,
            timeout_ms=settings.request_timeout_ms,
            expects_response=settings.acks != 0,
        )

    def _decode(
        self, broker_id: BrokerId, version: int, frame: memoryview, batches: Sequence[ProducerBatch]
    ) -> Sequence[BatchAnswer] | ClientError:
        try:
            answer = decode_produce_response(version, frame)
        except ProtocolViolation as violation:
            return ConnectionFailed(f"broker {broker_id}: unreadable answer to Produce: {violation}")
        if answer.throttle_ms > 0:
            self._network.throttle(broker_id, answer.throttle_ms)
        by_place = {
            (topic, partition.partition): BatchAnswer(
                partition.error_code,
                partition.base_offset,
                partition.log_append_time_ms,
                partition.error_message,
                partition.record_errors,
                partition.current_leader,
            )
            for topic, partitions in answer.topics
            for partition in partitions
        }
        return [by_place.get(batch.queue.topic_partition, _LEFT_OUT) for batch in batches]
