"""Reading partitions by assignment: from given offsets on, one request under way to each leader, the next one sent
before the records of the last are decoded.

Positions move on as records are handed out; there are no groups and no commits here.
"""

import select
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.clients.cluster import Cluster
from ottla.clients.connection import Connection
from ottla.clients.errors import BrokerError, ClientError, ConnectionFailed
from ottla.clients.fetched_batches import WantedBatches, decode_wanted, find_wanted
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.fetch_client_codec import FetchAnswer, decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments, FetchedPartition, FetchPartition, TopicKey
from ottla.records.read import Record

# Batch format v2 begins with 4; from 13 on topics go by their ids, which this client doesn't need.
FETCH_VERSIONS: Final = (4, 12)
FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
PARTITION_BYTES_MAX: Final = 1024 * 1024
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

_RETRY_WAIT_MS: Final = 50


class FetchedRecords(NamedTuple):
    """Records of one partition that an answer brought, oldest first; their times are all of one kind."""

    place: TopicPartition
    records: list[Record]
    size_bytes: int  # of the partition's part of the answer, counted with its first records
    high_watermark: Offset
    is_append_time: bool
    broker_id: BrokerId


class FetchedBatches(NamedTuple):
    """What an answer brought of one partition, undecoded."""

    wanted: WantedBatches
    high_watermark: Offset
    broker_id: BrokerId


class OffsetOutOfRange(BrokerError):
    """A position lies outside of what its partition holds; where to go on is the caller's to decide."""

    def __init__(self, place: TopicPartition, position: Offset) -> None:
        self.place = place
        self.position = position
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, f"{place}: fetch at {position}")


class _Link:
    """The connection to one leader, and what was asked on it and is not answered yet."""

    __slots__ = ("asked", "connection", "correlation_id", "leader_id", "turn", "version")

    def __init__(self, leader_id: BrokerId, connection: Connection) -> None:
        self.leader_id = leader_id
        self.connection = connection
        self.version = connection.version_for(ApiKey.FETCH, FETCH_VERSIONS)
        self.correlation_id = 0
        self.asked: dict[TopicPartition, Offset] = {}
        self.turn = 0


class AssignedReader:
    """Owned by one thread; `fetch` again and again, `close` at the end.

    `positions` are the next offsets and may be changed between fetches: what was already asked for from an older
    position is dropped when it comes. `end_offsets` are where the partitions ended by their last answers: the last
    stable offset when reading only what is committed, else the high watermark.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, Offset],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = FETCH_BYTES_MAX,
        partition_max_bytes: int = PARTITION_BYTES_MAX,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> None:
        self.positions = dict(positions)
        self.end_offsets: dict[TopicPartition, Offset] = {}
        self._cluster = cluster
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._isolation_level = isolation_level
        self._links: dict[BrokerId, _Link] = {}
        self._leaders: dict[TopicPartition, BrokerId] = {}
        self._is_view_stale = True
        self._failing_since: float | None = None

    def __enter__(self) -> "AssignedReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for link in self._links.values():
            link.connection.close()
        self._links.clear()

    def is_at_end(self, place: TopicPartition) -> bool:
        """Whether all that the partition held at its last answer was handed out."""
        end_offset = self.end_offsets.get(place)
        return end_offset is not None and self.positions[place] >= end_offset

    def fetch(self, timeout_ms: int | None = None) -> list[FetchedRecords]:
        """What is there, after waiting for it at most `timeout_ms` (`max_wait_ms` unless given).

        Leaders that move or go away are looked for anew, for the cluster's retry timeout at most; then it raises.
        """
        deadline = self._deadline(timeout_ms)
        while True:
            fetched = [
                records
                for batches in self._fetch_batches(deadline)
                for records in _decode(batches.wanted, batches.high_watermark, batches.broker_id)
            ]
            if fetched or time.monotonic() >= deadline:
                return fetched

    def fetch_batches(self, timeout_ms: int | None = None) -> list[FetchedBatches]:
        """The same, undecoded: for those who make columns of it."""
        return self._fetch_batches(self._deadline(timeout_ms))

    def _deadline(self, timeout_ms: int | None) -> float:
        return time.monotonic() + (self._max_wait_ms if timeout_ms is None else timeout_ms) / 1000

    def _fetch_batches(self, deadline: float) -> list[FetchedBatches]:
        while True:
            failure = self._ask_leaders()
            fetched: list[FetchedBatches] = []
            for link in self._answered(0.0 if failure is not None else max(0.0, deadline - time.monotonic())):
                try:
                    fetched += self._take_answer(link)
                    self._failing_since = None
                except (BrokerError, ConnectionFailed) as error:
                    failure = error
            if fetched:
                return fetched
            if failure is not None:
                self._give_up_or_go_on(failure)
            if time.monotonic() >= deadline:
                return []

    def _answered(self, timeout: float) -> list[_Link]:
        """The links on which an answer begins, after waiting for one."""
        links = {link.connection.socket.fileno(): link for link in self._links.values() if link.asked}
        waiting = select.poll()
        for file_number in links:
            waiting.register(file_number, select.POLLIN)
        return [links[file_number] for file_number, _ in waiting.poll(timeout * 1000)]

    def _give_up_or_go_on(self, failure: ClientError) -> None:
        """Raise what is final, or has lasted too long; else wait a moment before the next try."""
        if isinstance(failure, BrokerError) and not failure.is_retriable:
            raise failure
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since > self._cluster.retry_timeout_ms / 1000:
            raise failure
        self._is_view_stale = True
        time.sleep(_RETRY_WAIT_MS / 1000)

    def _ask_leaders(self) -> ClientError | None:
        """A request to every leader that has none under way; what stood in the way, when nothing could be asked."""
        try:
            waiting = self._by_leader()
        except (BrokerError, ConnectionFailed) as error:
            return error
        failure: ClientError | None = None
        for leader_id, places in waiting.items():
            link = self._links.get(leader_id)
            if link is not None and link.asked:
                continue
            try:
                if link is None:
                    address = self._cluster.brokers[leader_id]
                    link = self._links[leader_id] = _Link(leader_id, self._cluster.open_connection(address))
                self._ask(link, places)
            except ConnectionFailed as error:
                self._drop(leader_id)
                failure = error
        return failure

    def _by_leader(self) -> dict[BrokerId, list[TopicPartition]]:
        leaders = self._leaders
        if self._is_view_stale or any(place not in leaders for place in self.positions):
            leaders = self._find_leaders()
        grouped: dict[BrokerId, list[TopicPartition]] = {}
        for place in self.positions:
            grouped.setdefault(leaders[place], []).append(place)
        return grouped

    def _find_leaders(self) -> dict[TopicPartition, BrokerId]:
        cluster = self._cluster
        topics = sorted({place.topic for place in self.positions})
        if self._is_view_stale or any(topic not in cluster.topics for topic in topics):
            cluster.refresh(topics)
        leaders = {
            TopicPartition(topic, view.partition): view.leader_id
            for topic in topics
            for view in cluster.topics.get(topic, ())
        }
        for place in self.positions:
            leader_id = leaders.get(place)
            if leader_id is None:
                self._is_view_stale = True
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(place))
            if leader_id not in cluster.brokers:
                self._is_view_stale = True
                raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, str(place))
        self._leaders = leaders
        self._is_view_stale = False
        return leaders

    def _ask(self, link: _Link, places: list[TopicPartition]) -> None:
        # The answer is filled in the order of the question: each partition has its turn to be the first.
        link.turn = (link.turn + 1) % len(places)
        ordered = places[link.turn :] + places[: link.turn]
        connection = link.connection
        link.correlation_id = connection.next_correlation_id()
        link.asked = {place: self.positions[place] for place in ordered}
        arguments = self._arguments(link.asked)
        connection.send([encode_fetch_request(link.version, link.correlation_id, connection.client_id, arguments)])

    def _arguments(self, asked: Mapping[TopicPartition, Offset]) -> FetchArguments:
        topics: dict[TopicKey, list[FetchPartition]] = {}
        for place, offset in asked.items():
            wanted = FetchPartition(place.partition, -1, offset, -1, -1, self._partition_max_bytes)
            topics.setdefault(place.topic, []).append(wanted)
        return FetchArguments(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            session_id=0,
            session_epoch=-1,
            topics=list(topics.items()),
            forgotten_topics=[],
            rack_id="",
        )

    def _take_answer(self, link: _Link) -> list[FetchedBatches]:
        """Move the positions and ask for what follows; decoded is only then: the broker works meanwhile."""
        asked = link.asked
        answer = self._receive(link)
        found: list[FetchedBatches] = []
        failure: BrokerError | None = None
        for topic, partitions in answer.topics:
            for partition in partitions:
                place = TopicPartition(str(topic), partition.partition)
                if self.positions.get(place, -1) != asked.get(place):
                    continue  # moved or given up since it was asked for
                error = _error_of(place, partition, asked[place])
                if error is not None:
                    failure = failure if failure is not None and not failure.is_retriable else error
                else:
                    wanted = self._advance(place, partition)
                    found.append(FetchedBatches(wanted, partition.high_watermark, link.leader_id))
        if failure is None:
            self._ask_again(link, asked)
        elif not found:
            raise failure
        elif failure.is_retriable:
            self._is_view_stale = True
        return [batches for batches in found if batches.wanted.starts]

    def _receive(self, link: _Link) -> FetchAnswer:
        link.asked = {}
        try:
            frame = link.connection.receive(link.correlation_id, extra_wait_ms=self._max_wait_ms)
            answer = decode_fetch_response(link.version, frame)
        except ConnectionFailed:
            self._drop(link.leader_id)
            raise
        except ProtocolViolation as violation:
            self._drop(link.leader_id)
            raise ConnectionFailed(f"{link.connection.address}: unreadable answer: {violation}") from violation
        if answer.error_code != ErrorCode.NONE:
            raise BrokerError(answer.error_code, f"{link.connection.address}: fetch")
        return answer

    def _advance(self, place: TopicPartition, partition: FetchedPartition) -> WantedBatches:
        is_committed_only = self._isolation_level == READ_COMMITTED
        stable = partition.last_stable_offset
        self.end_offsets[place] = stable if is_committed_only and stable >= 0 else partition.high_watermark
        data = partition.records
        if not isinstance(data, bytes | bytearray | memoryview):
            data = b""
        aborted = partition.aborted_transactions if is_committed_only else None
        wanted = find_wanted(place, data, self.positions[place], aborted)
        self.positions[place] = wanted.next_offset
        return wanted

    def _ask_again(self, link: _Link, asked: Mapping[TopicPartition, Offset]) -> None:
        places = [place for place in asked if place in self.positions]
        if not places or self._is_view_stale:
            return
        try:
            self._ask(link, places)
        except ConnectionFailed:
            self._drop(link.leader_id)  # the next fetch makes a new one, or tells

    def _drop(self, leader_id: BrokerId) -> None:
        link = self._links.pop(leader_id, None)
        if link is not None:
            link.connection.close()


def _error_of(place: TopicPartition, partition: FetchedPartition, position: Offset) -> BrokerError | None:
    if partition.error_code == ErrorCode.NONE:
        return None
    if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OffsetOutOfRange(place, position)
    return BrokerError(partition.error_code, f"{place}: fetch at {position}")


def _decode(wanted: WantedBatches, high_watermark: Offset, broker_id: BrokerId) -> list[FetchedRecords]:
    fetched = []
    size_bytes = wanted.size_bytes
    for is_append_time, records in decode_wanted(wanted):
        fetched.append(FetchedRecords(wanted.place, records, size_bytes, high_watermark, is_append_time, broker_id))
        size_bytes = 0
    return fetched
