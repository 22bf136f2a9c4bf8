"""A connection with several produce requests in flight: frames out as the socket takes them, answers in, in order."""

import selectors
from collections import deque
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar

from ottla.clients.connection import FRAME_BYTES_MAX, Connection
from ottla.clients.errors import ConnectionFailed
from ottla.core.errors import ProtocolViolation
from ottla.core.types import Buffer, Offset, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.produce_client_codec import decode_produce_response, encode_produce_request

# Batch format v2 begins with 3; from 13 on topics go by their ids, which this client doesn't need.
PRODUCE_VERSIONS: Final = (3, 12)
_RECEIVE_BYTES: Final = 64 * 1024
_PARTS_AT_ONCE: Final = 64  # far below IOV_MAX
_SIZE: Final = Struct(">i")

BatchT = TypeVar("BatchT")


class PartitionAnswer(NamedTuple):
    """What became of the batch of one partition."""

    error_code: int
    base_offset: Offset
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()


Answers = dict[TopicPartition, PartitionAnswer]


class InFlight(NamedTuple, Generic[BatchT]):
    """A request whose answer is awaited."""

    correlation_id: int
    batches: Sequence[BatchT]
    sent_at: float


class ProduceChannel(Generic[BatchT]):
    """Owns its connection, and its place in the selector, until `close`."""

    def __init__(self, connection: Connection, selector: selectors.BaseSelector) -> None:
        self.in_flight: deque[InFlight[BatchT]] = deque()
        self._connection = connection
        self._version = connection.version_for(ApiKey.PRODUCE, PRODUCE_VERSIONS)
        self._socket = connection.socket
        self._socket.setblocking(False)
        self._selector = selector
        self._events = selectors.EVENT_READ
        self._out: deque[memoryview] = deque()
        self._in = bytearray()
        selector.register(self._socket, self._events, self)

    def close(self) -> None:
        if self._connection.is_open:
            self._selector.unregister(self._socket)
            self._connection.close()

    def send(
        self,
        batches: Sequence[BatchT],
        topics: Mapping[str, Sequence[tuple[int, Buffer]]],
        *,
        acks: int,
        timeout_ms: int,
        now: float,
    ) -> None:
        """Queue a request; it leaves with the next `on_ready`. With acks 0 there is no answer to wait for."""
        correlation_id = self._connection.next_correlation_id()
        parts = encode_produce_request(
            self._version,
            correlation_id,
            self._connection.client_id,
            transactional_id=None,
            acks=acks,
            timeout_ms=timeout_ms,
            topics=list(topics.items()),
        )
        self._out.extend(memoryview(part) for part in parts)
        if acks != 0:
            self.in_flight.append(InFlight(correlation_id, batches, now))

    def want_events(self) -> None:
        """Ask the selector for writability only while there is something to write."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        if events != self._events:
            self._events = events
            self._selector.modify(self._socket, events, self)

    def on_ready(self, mask: int) -> list[tuple[InFlight[BatchT], Answers]]:
        """Write and read what goes without waiting; the requests that were answered."""
        try:
            if mask & selectors.EVENT_WRITE:
                self._write()
            if mask & selectors.EVENT_READ:
                return self._read()
        except BlockingIOError:
            pass
        except OSError as error:
            raise ConnectionFailed(f"{self._connection.address}: {error.strerror or error}") from error
        except ProtocolViolation as violation:
            raise ConnectionFailed(f"{self._connection.address}: unreadable answer: {violation}") from violation
        return []

    def _write(self) -> None:
        out = self._out
        while out:
            sent = self._socket.sendmsg([out[index] for index in range(min(len(out), _PARTS_AT_ONCE))])
            while sent:
                if sent < len(out[0]):
                    out[0] = out[0][sent:]
                    break
                sent -= len(out.popleft())

    def _read(self) -> list[tuple[InFlight[BatchT], Answers]]:
        received = self._socket.recv(_RECEIVE_BYTES)
        if not received:
            raise ConnectionFailed(f"{self._connection.address}: the broker closed the connection")
        buffer = self._in
        buffer += received
        answered = []
        position = 0
        while len(buffer) - position >= 4:
            (size,) = _SIZE.unpack_from(buffer, position)
            if not 4 <= size <= FRAME_BYTES_MAX:
                raise ConnectionFailed(f"{self._connection.address}: an answer of {size} bytes was announced")
            end = position + 4 + size
            if end > len(buffer):
                break
            answered.append(self._answer(bytes(buffer[position + 4 : end])))
            position = end
        del buffer[:position]
        return answered

    def _answer(self, frame: bytes) -> tuple[InFlight[BatchT], Answers]:
        answer = decode_produce_response(self._version, frame)
        if not self.in_flight or self.in_flight[0].correlation_id != answer.correlation_id:
            raise ConnectionFailed(f"{self._connection.address}: unexpected answer {answer.correlation_id}")
        results = {
            TopicPartition(str(topic), partition.partition): PartitionAnswer(
                partition.error_code, partition.base_offset, partition.error_message, partition.record_errors
            )
            for topic, partitions in answer.topics
            for partition in partitions
        }
        return self.in_flight.popleft(), results
