"""A test's view of its broker: records, groups, commits. Read directly from the broker, past the proxy."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.clients.admin_groups import GroupDescription, describe_each_group
from ottla.clients.admin_offsets import fetch_offsets
from ottla.clients.admin_retry import only
from ottla.clients.cluster import REQUEST_TIMEOUT_MS, Cluster
from ottla.clients.config import ClientConfig
from ottla.clients.consumer.consumer import Consumer
from ottla.clients.errors import BrokerError
from ottla.clients.network.blocking import BlockingNetwork
from ottla.clients.network.caller_driven import CallerDrivenNetwork
from ottla.clients.network.threaded import ThreadNetwork
from ottla.clients.partitioning import partition_for_key
from ottla.clients.producer.partitioners import RoundRobinPartitioner
from ottla.clients.producer.producer import Producer
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset, TimestampMs, TopicPartition
from ottla.links.addresses import Address
from ottla.links.settings import NetworkSettings
from ottla.links.wire import Channel, Wire

_CLIENT_ID = "ottla-test"
# A killed broker is no reason to wait long: the test's own timeout counts.
_RETRY_TIMEOUT_MS = 2_000
_FETCH_WAIT_MS = 10
_RECONNECT_MS = 20  # a broker that was killed is soon back
_POLL_RECORDS = 10_000


class StoredRecord(NamedTuple):
    """A record of a partition."""

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
            settings=NetworkSettings(
                request_timeout_ms=request_timeout_ms,
                setup_timeout_ms=request_timeout_ms,
                reconnect_backoff_ms=_RECONNECT_MS,
                reconnect_backoff_max_ms=_RECONNECT_MS,
            ),
            retry_timeout_ms=_RETRY_TIMEOUT_MS,
        )
        self.port = port
        self.request_timeout_ms = request_timeout_ms

    def _new_network(self) -> BlockingNetwork:
        return _DirectCalledNetwork(self._bootstrap, client_id=self.client_id, settings=self.settings)


class _DirectCalledNetwork(BlockingNetwork):
    def open(self, address: Address, wire: Wire) -> Channel:
        return super().open(self.brokers.bootstrap[0], wire)


class _DirectLentNetwork(CallerDrivenNetwork):
    def open(self, address: Address, wire: Wire) -> Channel:
        return super().open(self.brokers.bootstrap[0], wire)


class _DirectThreadNetwork(ThreadNetwork):
    def open(self, address: Address, wire: Wire) -> Channel:
        return super().open(self.brokers.bootstrap[0], wire)


class _DirectConsumer(Consumer):
    def _new_network(self, config: ClientConfig) -> CallerDrivenNetwork:
        return _DirectLentNetwork(config.bootstrap, client_id=config.client_id, settings=config.network_settings())


class _DirectProducer(Producer):
    def _new_network(self, config: ClientConfig) -> ThreadNetwork:
        return _DirectThreadNetwork(config.bootstrap, client_id=config.client_id, settings=config.network_settings())


class TopicReader:
    """Reads a topic from its start, more with each call; only committed records, as consumers see them."""

    def __init__(self, cluster: DirectCluster, topic: str) -> None:
        count = cluster.partition_count(topic)
        self._places = [TopicPartition(topic, number) for number in range(count)]
        self._consumer = _DirectConsumer(
            _client_settings(cluster),
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            max_poll_records=_POLL_RECORDS,
        )
        self._consumer.assign(self._places)
        self.records: list[StoredRecord] = []

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close(timeout_ms=0)

    def read(self) -> None:
        """Read the records since the last call."""
        records = self._consumer.poll(_FETCH_WAIT_MS)
        if not records and (failure := self._consumer.unreachable) is not None:
            raise failure
        self.records += [
            StoredRecord(each.topic, each.partition, each.offset, each.timestamp_ms, each.key, each.value, each.headers)
            for each in records
        ]

    def read_to_end(self) -> list[StoredRecord]:
        self.read()
        while any(self._consumer.lag(topic_partition) != 0 for topic_partition in self._places):
            self.read()
        return self.records

    def counts(self) -> dict[int, int]:
        """How many records of each partition were read so far."""
        counts = dict.fromkeys((topic_partition.partition for topic_partition in self._places), 0)
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
    return {
        topic_partition: committed.offset for topic_partition, committed in fetch_offsets(cluster, group_id).items()
    }


def store_records(
    cluster: DirectCluster, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], partition: int | None
) -> None:
    """Stores keys and values; raises for the first refused one. Those without a key go to the partitions in turn."""
    cluster.retry(lambda: cluster.partition_count(topic))  # a producer's own question would create it
    round_robin = RoundRobinPartitioner()

    def topic_partition(topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        if key is not None:
            return partition_for_key(key, partition_count)
        return round_robin(topic, key, value, partition_count)

    with _DirectProducer(_client_settings(cluster), partitioner_class=topic_partition) as producer:
        handles = [producer.send(topic, value, key, partition=partition) for key, value in records]
        producer.flush()
    for handle in handles:
        handle.result(0)


def _client_settings(cluster: DirectCluster) -> dict[str, object]:
    return {
        "bootstrap.servers": f"127.0.0.1:{cluster.port}",
        "client.id": _CLIENT_ID,
        "request.timeout.ms": cluster.request_timeout_ms,
        "reconnect.backoff.max.ms": _RECONNECT_MS,
    }
