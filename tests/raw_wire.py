"""A client of one socket that sends what it is told to: whole requests, halves of them, or nonsense.

It knows no retries and no metadata; what the broker answered is what a test sees.
"""

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import TypeVar

from ottla.core.types import Buffer
from ottla.protocol.apis import response_class
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.fetch_client_codec import FetchAnswer, decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments, FetchedPartition, FetchPartition
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.produce_client_codec import decode_produce_response, encode_produce_request
from ottla.protocol.produce_codec import ProducedPartition
from ottla.records.build import build_batch
from ottla.records.header import iter_headers
from ottla.records.read import Record, read_batch

PRODUCE_VERSION = 11
FETCH_VERSION = 12  # the last one with topic names
CLIENT_ID = "raw"
LATEST = -1
EARLIEST = -2
SOME_TIME_MS = 1_700_000_000_000

Response = TypeVar("Response", bound=ApiMessage)


class ConnectionEnded(Exception):
    """The broker closed, or answered nothing in time."""


class RawClient:
    """One connection to a broker on this machine; use as a context manager."""

    def __init__(self, port: int, *, timeout_s: float = 15.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # Bytes

    def send(self, data: Buffer) -> None:
        self.socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        """A body with the size that it has."""
        self.send(struct.pack(">i", len(body)) + body)

    def receive_frame(self) -> bytes:
        """The next answer, without its size."""
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError as error:
                raise ConnectionEnded("reset") from error
            if not piece:
                raise ConnectionEnded(f"closed after {len(data)} of {count} bytes")
            data += piece
        return bytes(data)

    def is_closed_by_broker(self) -> bool:
        """Wait until the broker closes; False when an answer comes instead, TimeoutError when nothing does."""
        try:
            return self.socket.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return True

    # Requests

    def send_request(self, request: ApiMessage, version: int) -> int:
        """Only send; the correlation id."""
        correlation_id = self._next_correlation_id()
        self.send(encode_request(request, version, correlation_id, CLIENT_ID))
        return correlation_id

    def ask(self, request: ApiMessage, version: int, response: type[Response]) -> Response:
        """Send a request and wait for its answer."""
        correlation_id = self.send_request(request, version)
        assert response is response_class(request.API_KEY)
        answered, message = decode_response(response, version, self.receive_frame())
        assert answered == correlation_id
        return message

    def _next_correlation_id(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    def send_produce(
        self,
        topic: str,
        records: Buffer | None,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
        timeout_ms: int = 10_000,
    ) -> int:
        correlation_id = self._next_correlation_id()
        parts = encode_produce_request(
            version,
            correlation_id,
            CLIENT_ID,
            transactional_id=None,
            acks=acks,
            timeout_ms=timeout_ms,
            topics=[(topic, [(partition, records)])],
        )
        self.send(b"".join(parts))
        return correlation_id

    def receive_produced(self, version: int = PRODUCE_VERSION) -> tuple[int, ProducedPartition]:
        """Correlation id and the only partition of the next answer."""
        answer = decode_produce_response(version, self.receive_frame())
        ((_, (produced,)),) = answer.topics
        return answer.correlation_id, produced

    def produce(
        self,
        topic: str,
        records: Buffer | None,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
        timeout_ms: int = 10_000,
    ) -> ProducedPartition:
        """Records as they are, to one partition."""
        sent = self.send_produce(topic, records, partition=partition, acks=acks, version=version, timeout_ms=timeout_ms)
        answered, produced = self.receive_produced(version)
        assert answered == sent
        return produced

    def send_fetch(self, arguments: FetchArguments, version: int = FETCH_VERSION) -> int:
        correlation_id = self._next_correlation_id()
        self.send(encode_fetch_request(version, correlation_id, CLIENT_ID, arguments))
        return correlation_id

    def receive_fetched(self, version: int = FETCH_VERSION) -> FetchAnswer:
        return decode_fetch_response(version, self.receive_frame())

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        version: int = FETCH_VERSION,
        max_wait_ms: int = 0,
        max_bytes: int = 64 * 1024 * 1024,
    ) -> FetchedPartition:
        """What one partition has from an offset on, without a session."""
        sent = self.send_fetch(
            fetch_arguments(topic, offset, partition=partition, max_wait_ms=max_wait_ms, max_bytes=max_bytes), version
        )
        answer = self.receive_fetched(version)
        assert answer.correlation_id == sent
        assert answer.error_code == 0
        ((_, (fetched,)),) = answer.topics
        return fetched

    def read_all(self, topic: str, *, partition: int = 0, offset: int = 0) -> list[Record]:
        """Every record from an offset to the high watermark; each batch is checked against its CRC."""
        records: list[Record] = []
        while True:
            fetched = self.fetch(topic, offset, partition=partition)
            assert fetched.error_code == 0, f"fetch at {offset}: error {fetched.error_code}"
            if offset >= fetched.high_watermark:
                return records
            new = read_records(fetched)
            assert new, f"nothing at {offset}, high watermark is {fetched.high_watermark}"
            records += [record for record in new if record.offset >= offset]
            offset = records[-1].offset + 1

    def list_offset(self, topic: str, timestamp: int, *, partition: int = 0) -> ListOffsetsPartitionResponse:
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
                )
            ],
        )
        response = self.ask(request, 7, response_class(ListOffsetsRequest.API_KEY))
        found: ListOffsetsPartitionResponse = response.topics[0].partitions[0]  # type: ignore[attr-defined]
        return found

    def log_end_offset(self, topic: str, *, partition: int = 0) -> int:
        found = self.list_offset(topic, LATEST, partition=partition)
        assert found.error_code == 0
        return found.offset

    def create_topic(self, name: str, *, partitions: int = 1, **configs: str) -> int:
        """The error code. Configs are given with `_` for `.`."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=10_000,
        )
        response = self.ask(request, 5, response_class(CreateTopicsRequest.API_KEY))
        error_code: int = response.topics[0].error_code  # type: ignore[attr-defined]
        return error_code

    def new_producer_id(self) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = self.ask(request, 4, response_class(InitProducerIdRequest.API_KEY))
        assert response.error_code == 0  # type: ignore[attr-defined]
        producer_id: int = response.producer_id  # type: ignore[attr-defined]
        return producer_id


def fetch_arguments(
    topic: str | bytes,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 64 * 1024 * 1024,
    current_leader_epoch: int = -1,
) -> FetchArguments:
    """One partition, no session."""
    return FetchArguments(
        replica_id=-1,
        replica_epoch=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[(topic, [FetchPartition(partition, current_leader_epoch, offset, -1, -1, max_bytes)])],
        forgotten_topics=[],
        rack_id="",
    )


def read_records(fetched: FetchedPartition) -> list[Record]:
    """The records of the whole batches in an answer, checked."""
    if not fetched.records:
        return []
    assert isinstance(fetched.records, (bytes, bytearray, memoryview))
    data = bytes(fetched.records)
    records: list[Record] = []
    for position, _ in iter_headers(data, allow_partial_tail=True):
        records += read_batch(data, position)[1]
    return records


def batch_of(
    *values: bytes,
    keys: Sequence[bytes | None] | None = None,
    codec: int = 0,
    timestamp_ms: int = SOME_TIME_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """A sound batch of these values."""
    chosen: Iterable[bytes | None] = keys if keys is not None else [b"k"] * len(values)
    return build_batch(
        [(timestamp_ms, key, value, ()) for key, value in zip(chosen, values, strict=True)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
