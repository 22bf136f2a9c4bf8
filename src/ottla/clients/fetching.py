"""Reading partitions by assignment: from given offsets on, each request to a leader for all that it leads.

Positions move on as batches are handed out; there are no groups and no commits here.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.clients.cluster import Cluster
from ottla.clients.errors import BrokerError, ConnectionFailed, check
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import BrokerId, Offset, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.fetch_client_codec import decode_fetch_response, encode_fetch_request
from ottla.protocol.fetch_codec import FetchArguments, FetchedPartition, FetchPartition, TopicKey
from ottla.records.header import iter_headers
from ottla.records.read import Record, read_batch

# Batch format v2 begins with 4; from 13 on topics go by their ids, which this client doesn't need.
FETCH_VERSIONS: Final = (4, 12)
FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
PARTITION_BYTES_MAX: Final = 1024 * 1024


class FetchedRecords(NamedTuple):
    """The records of one partition that an answer brought, oldest first."""

    place: TopicPartition
    records: list[Record]
    size_bytes: int
    high_watermark: Offset


class AssignedReader:
    """Owned by one thread; `fetch` again and again. `positions` are the next offsets, and may be changed between."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, Offset],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = FETCH_BYTES_MAX,
        partition_max_bytes: int = PARTITION_BYTES_MAX,
    ) -> None:
        self.positions = dict(positions)
        self._cluster = cluster
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes

    def fetch(self) -> list[FetchedRecords]:
        """What is there, after waiting for it at most `max_wait_ms` for each leader; retried while leaders move."""
        return self._cluster.retry(self._attempt)

    def _attempt(self) -> list[FetchedRecords]:
        leaders = self._by_leader()
        fetched: list[FetchedRecords] = []
        for leader_id, places in leaders.items():
            try:
                fetched += self._fetch_from(leader_id, places)
            except (BrokerError, ConnectionFailed):
                self._cluster.topics.clear()  # whoever leads now is asked for anew
                if fetched:
                    return fetched
                raise
        return fetched

    def _by_leader(self) -> dict[BrokerId, list[TopicPartition]]:
        cluster = self._cluster
        topics = sorted({place.topic for place in self.positions})
        if any(topic not in cluster.topics for topic in topics):
            cluster.refresh(topics)
        leaders: dict[BrokerId, list[TopicPartition]] = {}
        for place in self.positions:
            leader_id = cluster.leader_of(place)
            if leader_id < 0:
                cluster.topics.pop(place.topic, None)
                raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, str(place))
            leaders.setdefault(leader_id, []).append(place)
        return leaders

    def _fetch_from(self, leader_id: BrokerId, places: Iterable[TopicPartition]) -> list[FetchedRecords]:
        connection = self._cluster.connection_to(leader_id)
        version = connection.version_for(ApiKey.FETCH, FETCH_VERSIONS)
        correlation_id = connection.next_correlation_id()
        frame = encode_fetch_request(version, correlation_id, connection.client_id, self._arguments(places))
        connection.send([frame])
        answer_frame = connection.receive(correlation_id, extra_wait_ms=self._max_wait_ms)
        try:
            answer = decode_fetch_response(version, answer_frame)
        except ProtocolViolation as violation:
            connection.close()
            raise ConnectionFailed(f"{connection.address}: unreadable answer: {violation}") from violation
        check(answer.error_code, f"{connection.address}: fetch")
        fetched = []
        for topic, partitions in answer.topics:
            for partition in partitions:
                found = self._take(TopicPartition(str(topic), partition.partition), partition)
                if found.records:
                    fetched.append(found)
        return fetched

    def _arguments(self, places: Iterable[TopicPartition]) -> FetchArguments:
        topics: dict[TopicKey, list[FetchPartition]] = {}
        for place in places:
            wanted = FetchPartition(place.partition, -1, self.positions[place], -1, -1, self._partition_max_bytes)
            topics.setdefault(place.topic, []).append(wanted)
        return FetchArguments(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=list(topics.items()),
            forgotten_topics=[],
            rack_id="",
        )

    def _take(self, place: TopicPartition, partition: FetchedPartition) -> FetchedRecords:
        check(partition.error_code, f"{place}: fetch at {self.positions[place]}")
        data = partition.records
        records: list[Record] = []
        size_bytes = 0
        if isinstance(data, bytes | bytearray | memoryview) and len(data):
            position = self.positions[place]
            for start, header in iter_headers(data, allow_partial_tail=True):
                size_bytes += header.size_bytes
                if header.next_offset <= position:
                    continue
                if not header.is_control:
                    _, of_batch = read_batch(data, start)
                    if header.base_offset < position:
                        # A batch is served whole, also what lies before the offset that was asked for.
                        of_batch = [record for record in of_batch if record.offset >= position]
                    records += of_batch
                position = header.next_offset
            self.positions[place] = position
        return FetchedRecords(place, records, size_bytes, partition.high_watermark)
