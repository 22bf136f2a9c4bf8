"""Who uses a simulated cluster: idempotent writers that never give up, and readers that follow each partition.

Every value is written by one writer, to one partition, once. All that is sent, acknowledged and read goes into the
`History`, by which the rules judge the run.
"""

from functools import partial
from typing import Final

from ottla.clients.network.port import ANY_BROKER
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset, TopicPartition
from ottla.links.errors import ClientError
from ottla.protocol.apis import ApiKey
from ottla.protocol.fetch_client_codec import decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments, FetchedPartition, FetchPartition
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.produce_client_codec import decode_produce_response, encode_produce_request
from ottla.records.build import build_batch
from ottla.records.header import iter_headers
from ottla.records.read import read_batch
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.history import History

_ACKS_ALL: Final = -1
_PAUSE_MS: Final = 20
_RETRY_MS: Final = 50
_PRODUCE_TIMEOUT_MS: Final = 3_000
_FETCH_VERSION: Final = 12
_PRODUCE_VERSION: Final = 9
_RECORDS_PER_BATCH_MAX: Final = 3


class PartitionWriter:
    """Writes to one partition, one batch at a time, each until it is acknowledged; its sequences leave no gap."""

    def __init__(self, client: SimulatedClient, topic_partition: TopicPartition, history: History) -> None:
        self._client = client
        self._topic_partition = topic_partition
        self._history = history
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequence = 0
        self._number = 0
        self._values: list[bytes] = []
        self.is_stopped = False
        self.acked_count = 0
        self.refusals: dict[int, int] = {}  # by error code
        self._get_producer_id()

    def stop(self) -> None:
        """Send nothing new; what was sent is tried on until it is acknowledged."""
        self.is_stopped = True

    @property
    def is_idle(self) -> bool:
        return self.is_stopped and not self._values

    def _get_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self._client.request(ANY_BROKER, request, self._on_producer_id, versions=(4, 4))

    def _on_producer_id(self, answer: InitProducerIdResponse | ClientError) -> None:
        if isinstance(answer, ClientError) or answer.error_code:
            self._client.call_later(_RETRY_MS, self._get_producer_id)
            return
        self._producer_id = answer.producer_id
        self._producer_epoch = answer.producer_epoch
        self._send_next()

    def _send_next(self) -> None:
        if self.is_stopped:
            return
        for _ in range(self._client.random.randint(1, _RECORDS_PER_BATCH_MAX)):
            value = b"%s/%s/%d" % (self._client.name.encode(), str(self._topic_partition).encode(), self._number)
            self._number += 1
            self._values.append(value)
            self._history.sent(value, self._client.name, self._topic_partition, is_idempotent=True)
        self._send()

    def _send(self) -> None:
        leader = self._client.leaders.get(self._topic_partition)
        if leader is None:
            self._try_again()
            return
        batch = build_batch(
            [(1_700_000_000_000, None, value, ()) for value in self._values],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequence,
        )
        topic, partition = self._topic_partition
        encode = partial(
            encode_produce_request,
            transactional_id=None,
            acks=_ACKS_ALL,
            timeout_ms=_PRODUCE_TIMEOUT_MS,
            topics=[(topic, [(partition, batch)])],
        )
        self._client.request_frame(
            leader, ApiKey.PRODUCE, encode, self._on_produced, versions=(_PRODUCE_VERSION, _PRODUCE_VERSION)
        )

    def _on_produced(self, version: int, frame: memoryview | ClientError) -> None:
        if isinstance(frame, ClientError):
            self._try_again()
            return
        ((_, (answer,)),) = decode_produce_response(version, frame).topics
        if answer.error_code:
            self.refusals[answer.error_code] = self.refusals.get(answer.error_code, 0) + 1
            self._try_again()
            return
        self.acked_count += len(self._values)
        for index, value in enumerate(self._values):
            self._history.acked(value, self._topic_partition, answer.base_offset + index)
        self._sequence += len(self._values)
        self._values = []
        self._client.call_later(self._client.random.randint(1, _PAUSE_MS), self._send_next)

    def _try_again(self) -> None:
        self._client.refresh()
        self._client.call_later(_RETRY_MS, self._send)


class PartitionReader:
    """Reads one partition from its beginning on, as a consumer does, for as long as the run lasts."""

    def __init__(self, client: SimulatedClient, topic_partition: TopicPartition, history: History) -> None:
        self._client = client
        self._topic_partition = topic_partition
        self._history = history
        self.position: Offset = 0
        self._fetch()

    def _fetch(self) -> None:
        leader = self._client.leaders.get(self._topic_partition)
        if leader is None:
            self._try_again()
            return
        topic, partition = self._topic_partition
        arguments = FetchArguments(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[(topic, [FetchPartition(partition, -1, self.position, -1, -1, 1 << 20)])],
            forgotten_topics=[],
            rack_id="",
        )

        def encode(version: int, correlation_id: int, client_id: str) -> list[bytes]:
            return [encode_fetch_request(version, correlation_id, client_id, arguments)]

        self._client.request_frame(
            leader, ApiKey.FETCH, encode, self._on_fetched, versions=(_FETCH_VERSION, _FETCH_VERSION)
        )

    def _on_fetched(self, version: int, frame: memoryview | ClientError) -> None:
        if isinstance(frame, ClientError):
            self._try_again()
            return
        answer = decode_fetch_response(version, frame)
        if answer.error_code or not answer.topics:
            self._try_again()
            return
        ((_, (fetched,)),) = answer.topics
        if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and fetched.log_start_offset > self.position:
            self._history.sought(self._topic_partition, self._client.name)
            self.position = fetched.log_start_offset
        elif fetched.error_code:
            self._try_again()
            return
        self._take(fetched)
        self._client.call_soon(self._fetch)

    def _take(self, fetched: FetchedPartition) -> None:
        records = fetched.records
        if not isinstance(records, (bytes, bytearray, memoryview)):
            return
        for position, header in iter_headers(memoryview(records), allow_partial_tail=True):
            _, batch = read_batch(records, position)
            if header.is_control:
                self.position = header.next_offset
                continue
            for record in batch:
                if record.offset >= self.position:
                    assert record.value is not None
                    self._history.read(self._topic_partition, record.offset, bytes(record.value), self._client.name)
                    self.position = record.offset + 1

    def _try_again(self) -> None:
        self._client.refresh()
        self._client.call_later(_RETRY_MS, self._fetch)
