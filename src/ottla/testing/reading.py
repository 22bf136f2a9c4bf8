"""What a test sees of its broker: records, groups, commits. Asked of the broker itself, past the proxy."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.clients.admin_groups import GroupDescription, describe_each_group
from ottla.clients.admin_offsets import fetch_offsets
from ottla.clients.admin_retry import only
from ottla.clients.cluster import Cluster
from ottla.clients.connection import REQUEST_TIMEOUT_MS, Address, Connection
from ottla.clients.errors import BrokerError
from ottla.clients.fetching import READ_COMMITTED, AssignedReader
from ottla.clients.producing import BatchSender, Delivery
from ottla.clients.topics import EARLIEST, list_offsets
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset, TimestampMs, TopicPartition

_CLIENT_ID = "ottla-test"
# A broker that was killed is no reason to wait long: the test's own bound is the one that counts.
_RETRY_TIMEOUT_MS = 2_000
_FETCH_WAIT_MS = 10


class StoredRecord(NamedTuple):
    """A record as it lies in a partition."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: TimestampMs
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class DirectCluster(Cluster):
    """Connects to the broker's own port, whatever address it advertises."""

    def __init__(self, port: int, *, request_timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        super().__init__(
            f"127.0.0.1:{port}",
            client_id=_CLIENT_ID,
            connect_timeout_ms=request_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            retry_timeout_ms=_RETRY_TIMEOUT_MS,
        )
        self._port = port

    def open_connection(self, address: Address) -> Connection:
        return super().open_connection(Address("127.0.0.1", self._port))


class TopicReader:
    """Reads a topic from its start, a little more with each call; only what is committed, as consumers may see it."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        count = cluster.partition_count(topic)
        self._places = [TopicPartition(topic, number) for number in range(count)]
        self._reader = AssignedReader(
            cluster,
            list_offsets(cluster, self._places, EARLIEST),
            max_wait_ms=_FETCH_WAIT_MS,
            isolation_level=READ_COMMITTED,
        )
        self.records: list[StoredRecord] = []

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()

    def read(self) -> None:
        """Take in what came since the last time."""
        for fetched in self._reader.fetch():
            topic, partition = fetched.place
            self.records += [StoredRecord(topic, partition, *record) for record in fetched.records]

    def read_to_end(self) -> list[StoredRecord]:
        self.read()
        while not all(self._reader.is_at_end(place) for place in self._places):
            self.read()
        return self.records

    def counts(self) -> dict[int, int]:
        """How many records each partition has given so far."""
        counts = dict.fromkeys((place.partition for place in self._places), 0)
        for record in self.records:
            counts[record.partition] += 1
        return counts


def describe_group(cluster: Cluster, group_id: str) -> GroupDescription | None:
    """None when there is no such group."""
    try:
        return only(describe_each_group(cluster, [group_id]))
    except BrokerError as error:
        if error.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return None


def committed_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, Offset]:
    return {place: committed.offset for place, committed in fetch_offsets(cluster, group_id).items()}


def store_records(
    cluster: Cluster, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], partition: int | None
) -> list[Delivery]:
    """Keys and values, stored when this returns; raises for the first batch that is refused."""
    deliveries: list[Delivery] = []
    with BatchSender(cluster, on_delivery=deliveries.append) as sender:
        for key, value in records:
            sender.send(topic, value, key=key, partition=partition)
        sender.flush()
    for delivery in deliveries:
        if delivery.error_code != ErrorCode.NONE:
            raise BrokerError(delivery.error_code, f"storing records in {delivery.place}", delivery.error_message)
    return deliveries
