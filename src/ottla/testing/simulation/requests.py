"""The requests that a simulation sends most, each as one call that gives an `Outcome`."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.clients.network.port import OnResponse
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, Buffer, Offset, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.fetch_client_codec import decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments, FetchPartition
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.produce_client_codec import decode_produce_response, encode_produce_request
from ottla.protocol.produce_codec import ProducedPartition
from ottla.records.build import build_batch
from ottla.records.header import iter_headers
from ottla.records.read import read_batch
from ottla.testing.simulation.client import Outcome, SimulatedClient

_PRODUCE_VERSIONS: Final = (9, 9)  # names of topics, not their ids
_FETCH_VERSIONS: Final = (12, 12)
_FETCH_BY_ID_VERSIONS: Final = (13, 13)
_DELETE_BY_ID_VERSIONS: Final = (6, 6)
_FETCH_MAX_BYTES: Final = 1 << 20


class Producer(NamedTuple):
    """Who a batch is from, and the sequence of its first record."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


class Fetched(NamedTuple):
    """The answer of a fetch for one partition; `records` are (offset, value)."""

    error_code: int
    high_watermark: int
    log_start_offset: int
    records: list[tuple[int, bytes | None]]


_NO_PRODUCER: Final = Producer()


def create_topic(
    client: SimulatedClient,
    broker_id: BrokerId,
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
    timeout_ms: int = 10_000,
) -> Outcome:
    """The response is a CreateTopicsResponse."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    return client.request(broker_id, CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms))


def delete_topic(
    client: SimulatedClient,
    broker_id: BrokerId,
    topic_id: bytes,
    *,
    timeout_ms: int = 10_000,
    on_response: OnResponse | None = None,
) -> Outcome:
    """By its id: a request that is late must not delete another topic of the same name. The response is a
    DeleteTopicsResponse."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)], timeout_ms=timeout_ms)
    return client.request(broker_id, request, on_response, timeout_ms=timeout_ms, versions=_DELETE_BY_ID_VERSIONS)


def delete_records(
    client: SimulatedClient,
    broker_id: BrokerId,
    topic_partition: TopicPartition,
    before_offset: Offset,
    *,
    timeout_ms: int = 10_000,
    on_response: OnResponse | None = None,
) -> Outcome:
    """The response is a DeleteRecordsResponse."""
    topic, partition = topic_partition
    wanted = DeleteRecordsPartition(partition_index=partition, offset=before_offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=timeout_ms)
    return client.request(broker_id, request, on_response, timeout_ms=timeout_ms)


def produce(
    client: SimulatedClient,
    broker_id: BrokerId,
    topic: str,
    partition: int,
    values: Sequence[bytes],
    *,
    acks: int = -1,
    producer: Producer = _NO_PRODUCER,
    timeout_ms: int = 10_000,
    on_response: OnResponse | None = None,
) -> Outcome:
    """One batch; the response is a ProducedPartition."""
    records = build_batch(
        [(client.loop.clock(), None, value, ()) for value in values],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
    )

    def encode(version: int, correlation_id: int, client_id: str) -> list[Buffer]:
        return encode_produce_request(
            version,
            correlation_id,
            client_id,
            transactional_id=None,
            acks=acks,
            timeout_ms=timeout_ms,
            topics=[(topic, [(partition, records)])],
        )

    def decode(version: int, frame: memoryview) -> ProducedPartition:
        return decode_produce_response(version, frame).topics[0][1][0]

    return client.request_frame(
        broker_id, ApiKey.PRODUCE, encode, decode, versions=_PRODUCE_VERSIONS, on_response=on_response
    )


def fetch(
    client: SimulatedClient,
    broker_id: BrokerId,
    topic: str | bytes,
    partition: int,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    leader_epoch: int = -1,
    on_response: OnResponse | None = None,
) -> Outcome:
    """Of a topic by its name or its id; the response is a `Fetched`."""
    wanted = FetchPartition(partition, leader_epoch, offset, -1, -1, _FETCH_MAX_BYTES)
    arguments = FetchArguments(-1, -1, max_wait_ms, min_bytes, _FETCH_MAX_BYTES, 0, 0, -1, [(topic, [wanted])], [], "")

    def encode(version: int, correlation_id: int, client_id: str) -> list[Buffer]:
        return [encode_fetch_request(version, correlation_id, client_id, arguments)]

    def decode(version: int, frame: memoryview) -> Fetched:
        answer = decode_fetch_response(version, frame)
        if answer.error_code != ErrorCode.NONE or not answer.topics:
            return Fetched(answer.error_code, -1, -1, [])
        found = answer.topics[0][1][0]
        records = found.records if isinstance(found.records, bytes | bytearray | memoryview) else b""
        return Fetched(
            found.error_code, found.high_watermark, found.log_start_offset, _records_from(bytes(records), offset)
        )

    return client.request_frame(
        broker_id,
        ApiKey.FETCH,
        encode,
        decode,
        versions=_FETCH_VERSIONS if isinstance(topic, str) else _FETCH_BY_ID_VERSIONS,
        on_response=on_response,
    )


def _records_from(data: bytes, offset: int) -> list[tuple[int, bytes | None]]:
    """A batch may begin before the offset that was asked for, and the last may be cut off."""
    return [
        (record.offset, record.value)
        for position, _ in iter_headers(data, allow_partial_tail=True)
        for record in read_batch(data, position)[1]
        if record.offset >= offset
    ]
