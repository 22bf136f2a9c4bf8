"""Fetches from leaders, or from the closest replicas: one request in flight to each, ahead of the reader.

Runs in the client loop. Fetched batches go to the fetch buffer undecoded; the subscription says where to read. A
partition is fetched again while less than `max.partition.fetch.bytes` of it, and less than half of `fetch.max.bytes`
in all, waits to be read; an answer has at most the other half. Batches of paused partitions don't count.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.clients.consumer.errors import OffsetOutOfRange, RecordTooLarge, error_of
from ottla.clients.consumer.fetch_buffer import FetchBuffer, FetchedPartition
from ottla.clients.consumer.fetch_session import FetchSession, SessionRequest
from ottla.clients.consumer.reset import NOWHERE, ResetStrategy
from ottla.clients.consumer.subscription import NO_REPLICA, PartitionState, Subscription
from ottla.clients.error_rules import RETRIABLE
from ottla.clients.errors import ClientError, ConnectionFailed
from ottla.clients.fetched_batches import UnreadableRecords, find_wanted
from ottla.clients.network.metadata import Metadata
from ottla.clients.network.port import Network
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import BrokerId, Buffer, TopicPartition
from ottla.links.backoff import Backoff
from ottla.protocol.apis import ApiKey
from ottla.protocol.fetch_client_codec import FetchAnswer, decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments, FetchPartition, TopicKey
from ottla.protocol.fetch_codec import FetchedPartition as AnswerPartition

# Batch format v2 begins with version 4; from 13 on topics have ids in place of names, which this reader doesn't need.
FETCH_VERSIONS: Final = (4, 12)
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

# The leader has moved, or is not ready: look it up, fetch again. A broker with an unknown error may also have lost its
# leadership; corrupt records are reported to the user.
_RETRIED: Final = (RETRIABLE | {ErrorCode.UNKNOWN_SERVER_ERROR}) - {ErrorCode.CORRUPT_MESSAGE}

# For partitions that are read up to an offset: how much to fetch while the size of a topic's records is not known, and
# how much more than the estimate. Bytes fetched in vain cost more than another request.
_UNKNOWN_BYTES: Final = 1 << 20
_MARGIN: Final = 1.1
_SPARE_BYTES: Final = 32 << 10


class FetchSettings(NamedTuple):
    """The config keys for fetching."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    isolation_level: int
    rack_id: str
    backoff: Backoff
    preferred_replica_ms: int  # how long to prefer a closest replica: metadata.max.age.ms
    reset: ResetStrategy


class _Asked(NamedTuple):
    """The state of a partition at the request: an answer is ignored for a partition that was moved since."""

    state: PartitionState
    offset: int
    seek_count: int


class Fetcher:
    """Owned by the consumer's core, which calls `send` whenever something may be fetchable."""

    def __init__(
        self,
        network: Network,
        metadata: Metadata,
        subscription: Subscription,
        fetch_buffer: FetchBuffer,
        settings: FetchSettings,
        *,
        is_unchecked: Callable[[PartitionState], bool],
        on_ready: Callable[[], None],
        on_reset: Callable[[], None],
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._subscription = subscription
        self._fetch_buffer = fetch_buffer
        self._settings = settings
        self._is_unchecked = is_unchecked  # the position may be invalid under a new leader
        self._on_ready = on_ready
        self._on_reset = on_reset  # a partition needs a new position
        self._sessions: dict[BrokerId, FetchSession] = {}
        self._busy: set[BrokerId] = set()
        self._offset_bytes: dict[str, float] = {}  # bytes per offset of a topic in the last answer
        self._turn = 0
        self._is_closed = False
        self._is_retry_planned = False

    def send(self) -> None:
        """Send a request to every broker that has none in flight and has partitions to fetch."""
        if self._is_closed:
            return
        wanted = self._by_broker()
        for broker_id, states in wanted.items():
            if broker_id not in self._busy:
                self._ask(broker_id, states)

    def close(self) -> None:
        """Close the sessions on the brokers; later answers are dropped."""
        self._is_closed = True
        for broker_id, session in self._sessions.items():
            closing = session.closing()
            if closing is not None and broker_id not in self._busy:
                self._request(broker_id, closing, lambda version, frame: None)

    def _by_broker(self) -> dict[BrokerId, list[PartitionState]]:
        fetch_buffer = self._fetch_buffer
        # Set before the check: a reader that makes room after the check sees it, and wakes the loop.
        fetch_buffer.is_loop_waiting = True
        states = self._subscription.states.values()
        # The sum matters for large topics: thousands of partitions may each have an answer waiting.
        is_room = 2 * sum(state.queued_bytes for state in states if not state.is_paused) < self._settings.max_bytes
        now_ms = self._network.now_ms()
        grouped: dict[BrokerId, list[PartitionState]] = {}
        is_full = False
        for state in states:
            if not state.is_fetchable:
                continue
            if not is_room or state.queued_bytes >= self._settings.partition_max_bytes:
                is_full = True
                continue
            if self._is_unchecked(state):
                is_full |= state.queued_bytes > 0  # checked again when that was read
                continue
            if state.retry_at_ms > now_ms:
                self._retry_later(state.retry_at_ms - now_ms)
                continue
            broker_id = self._source_of(state, now_ms)
            if broker_id < 0:
                self._metadata.request_update()
                continue
            grouped.setdefault(broker_id, []).append(state)
        fetch_buffer.is_loop_waiting = is_full
        return grouped

    def _source_of(self, state: PartitionState, now_ms: int) -> BrokerId:
        if state.preferred_replica != NO_REPLICA:
            if now_ms < state.preferred_until_ms and state.preferred_replica in self._metadata.brokers:
                return state.preferred_replica
            state.preferred_replica = NO_REPLICA
        return self._metadata.leader_of(state.topic_partition)

    def _ask(self, broker_id: BrokerId, states: list[PartitionState]) -> None:
        # The broker fills an answer in the order of the request: each partition is first in turn.
        self._turn += 1
        turn = self._turn % len(states)
        asked: dict[TopicPartition, _Asked] = {}
        wanted: dict[TopicPartition, FetchPartition] = {}
        for state in states[turn:] + states[:turn]:
            topic_partition = state.topic_partition
            asked[topic_partition] = _Asked(state, state.fetch_offset, state.seek_count)
            wanted[topic_partition] = FetchPartition(
                topic_partition.partition,
                self._metadata.leader_epoch_of(topic_partition),
                state.fetch_offset,
                -1,
                -1,
                self._bytes_wanted(state),
            )
        session = self._sessions.setdefault(broker_id, FetchSession())
        self._busy.add(broker_id)

        def on_frame(version: int, frame: memoryview | ClientError) -> None:
            self._busy.discard(broker_id)
            if not self._is_closed:
                self._take(broker_id, session, asked, version, frame)

        self._request(broker_id, session.build(wanted), on_frame)

    def _bytes_wanted(self, state: PartitionState) -> int:
        """With an end offset no more than is needed to get there, estimated from earlier answers."""
        most = self._settings.partition_max_bytes
        if state.until is None:
            return most
        offset_bytes = self._offset_bytes.get(state.topic_partition.topic)
        if offset_bytes is None:
            return min(most, _UNKNOWN_BYTES)
        return min(most, int(offset_bytes * (state.until - state.fetch_offset) * _MARGIN) + _SPARE_BYTES)

    def _request(
        self,
        broker_id: BrokerId,
        session: SessionRequest,
        on_frame: Callable[[int, memoryview | ClientError], None],
    ) -> None:
        settings = self._settings
        arguments = FetchArguments(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=max(1, settings.max_bytes // 2),
            isolation_level=settings.isolation_level,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=_by_topic(session.to_send),
            forgotten_topics=_numbers_by_topic(session.to_forget),
            rack_id=settings.rack_id,
        )

        def encode(version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
            return [encode_fetch_request(version, correlation_id, client_id, arguments)]

        self._network.request_frame(broker_id, ApiKey.FETCH, encode, on_frame, versions=FETCH_VERSIONS)

    def _take(
        self,
        broker_id: BrokerId,
        session: FetchSession,
        asked: Mapping[TopicPartition, _Asked],
        version: int,
        frame: memoryview | ClientError,
    ) -> None:
        if not isinstance(frame, ClientError):
            try:
                answer = decode_fetch_response(version, frame)
            except ProtocolViolation as violation:
                frame = ConnectionFailed(f"broker {broker_id}: unreadable answer to a fetch: {violation}")
        if isinstance(frame, ClientError):
            session.on_failure()
            for each in asked.values():
                self._back_off(each.state)
            self._metadata.request_update()
        else:
            session.on_answer(answer.error_code, answer.session_id)
            if answer.throttle_ms > 0:
                self._network.throttle(broker_id, answer.throttle_ms)
            if self._take_partitions(broker_id, asked, answer):
                self._on_ready()
        self.send()

    def _take_partitions(
        self, broker_id: BrokerId, asked: Mapping[TopicPartition, _Asked], answer: FetchAnswer
    ) -> bool:
        """Whether the fetch buffer got something new."""
        is_ready = False
        for topic, partitions in answer.topics:
            for partition in partitions:
                each = asked.get(TopicPartition(str(topic), partition.partition))
                if each is None:
                    continue
                state = each.state
                if not state.is_assigned or state.seek_count != each.seek_count or state.fetch_offset != each.offset:
                    continue  # moved or revoked since the request
                if partition.error_code == ErrorCode.NONE:
                    is_ready |= self._take_records(state, partition)
                else:
                    is_ready |= self._take_error(broker_id, state, partition)
        return is_ready

    def _take_records(self, state: PartitionState, partition: AnswerPartition) -> bool:
        is_committed_only = self._settings.isolation_level == READ_COMMITTED
        state.failures = 0
        if partition.high_watermark >= 0:
            state.high_watermark = partition.high_watermark
        if partition.last_stable_offset >= 0:
            state.last_stable_offset = partition.last_stable_offset
        if partition.log_start_offset >= 0:
            state.log_start_offset = partition.log_start_offset
        if partition.preferred_read_replica >= 0:
            state.preferred_replica = partition.preferred_read_replica
            state.preferred_until_ms = self._network.now_ms() + self._settings.preferred_replica_ms
        data = partition.records
        if not isinstance(data, memoryview | bytes | bytearray) or not data:
            return False
        aborted = partition.aborted_transactions if is_committed_only else None
        try:
            # A slice of the frame: partitions of an answer are read one after the other, and the last one releases it.
            wanted = find_wanted(state.topic_partition, data, state.fetch_offset, aborted)
        except UnreadableRecords as damage:
            self._put_error(state, damage)
            return True
        if wanted.next_offset == state.fetch_offset:
            self._put_error(
                state, RecordTooLarge(state.topic_partition, state.fetch_offset, self._settings.partition_max_bytes)
            )
            return True
        if state.until is not None:
            self._offset_bytes[state.topic_partition.topic] = wanted.size_bytes / (
                wanted.next_offset - state.fetch_offset
            )
        state.fetch_offset = wanted.next_offset
        state.fetched_bytes += wanted.size_bytes
        self._fetch_buffer.ready.append(FetchedPartition(state, wanted, size_bytes=wanted.size_bytes))
        return True

    def _take_error(self, broker_id: BrokerId, state: PartitionState, partition: AnswerPartition) -> bool:
        error_code = partition.error_code
        if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._take_out_of_range(broker_id, state)
        state.preferred_replica = NO_REPLICA
        self._back_off(state)
        if error_code in _RETRIED:
            self._metadata.request_update()
            return False
        self._put_error(state, error_of(error_code, f"{state.topic_partition}: fetch at {state.fetch_offset}"))
        return True

    def _take_out_of_range(self, broker_id: BrokerId, state: PartitionState) -> bool:
        if state.preferred_replica == broker_id:
            state.preferred_replica = NO_REPLICA  # a follower may lag: ask the leader
            return False
        if state.queued_bytes:
            self._back_off(state)  # what was fetched before is read first, then the consumer fetches again
            return False
        if self._settings.reset == NOWHERE:
            self._put_error(state, OffsetOutOfRange({state.topic_partition: state.fetch_offset}))
            return True
        state.seek_by(self._settings.reset)
        self._on_reset()
        return False

    def _put_error(self, state: PartitionState, error: ClientError) -> None:
        # It counts as a full buffer of the partition: nothing more is fetched until the error was raised.
        size_bytes = self._settings.partition_max_bytes
        state.fetched_bytes += size_bytes
        self._fetch_buffer.ready.append(FetchedPartition(state, None, size_bytes=size_bytes, error=error))

    def _back_off(self, state: PartitionState) -> None:
        state.back_off(self._settings.backoff, self._network.now_ms())

    def _retry_later(self, delay_ms: int) -> None:
        if self._is_retry_planned:
            return
        self._is_retry_planned = True

        def retry() -> None:
            self._is_retry_planned = False
            self.send()

        self._network.call_later(delay_ms, retry)


def _by_topic(wanted: Mapping[TopicPartition, FetchPartition]) -> list[tuple[TopicKey, list[FetchPartition]]]:
    topics: dict[TopicKey, list[FetchPartition]] = {}
    for topic_partition, asked in wanted.items():
        topics.setdefault(topic_partition.topic, []).append(asked)
    return list(topics.items())


def _numbers_by_topic(topic_partitions: Sequence[TopicPartition]) -> list[tuple[TopicKey, list[int]]]:
    topics: dict[TopicKey, list[int]] = {}
    for topic_partition in topic_partitions:
        topics.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return list(topics.items())
