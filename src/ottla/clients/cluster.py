"""A client's view of a cluster: brokers, who leads which partition, and one blocking connection to each of them.

The view is as old as its last `refresh`; whoever is told that a leader moved refreshes it and tries again.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from ottla.clients.connection import (
    CONNECT_TIMEOUT_MS,
    DEFAULT_CLIENT_ID,
    REQUEST_TIMEOUT_MS,
    Address,
    Connection,
    parse_bootstrap,
)
from ottla.clients.errors import BrokerError, ConnectionFailed, check
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

NO_LEADER: Final[BrokerId] = -1
RETRY_TIMEOUT_MS: Final = 30_000
RETRY_BACKOFF_MS: Final = 20
RETRY_BACKOFF_MAX_MS: Final = 1_000

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class PartitionView(NamedTuple):
    """One partition as the metadata shows it."""

    partition: int
    leader_id: BrokerId
    replica_ids: tuple[BrokerId, ...]
    in_sync_ids: tuple[BrokerId, ...]


class Cluster:
    """Owned by one thread. Connections are made when first needed and kept; `close` closes them all."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = DEFAULT_CLIENT_ID,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        retry_timeout_ms: int = RETRY_TIMEOUT_MS,
        retry_backoff_ms: int = RETRY_BACKOFF_MS,
        retry_backoff_max_ms: int = RETRY_BACKOFF_MAX_MS,
    ) -> None:
        self.client_id = client_id
        self.retry_timeout_ms = retry_timeout_ms
        self.cluster_id: str | None = None
        self.controller_id: BrokerId = NO_LEADER
        self.brokers: dict[BrokerId, Address] = {}
        self.topics: dict[str, list[PartitionView]] = {}
        self._bootstrap = parse_bootstrap(bootstrap)
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._connections: dict[Address, Connection] = {}

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def open_connection(self, address: Address) -> Connection:
        """A new connection with this cluster's settings, owned by the caller."""
        return Connection(
            address,
            client_id=self.client_id,
            connect_timeout_ms=self._connect_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
        )

    def any_connection(self) -> Connection:
        """To whichever broker can be reached, known ones first."""
        failure: ConnectionFailed | None = None
        for address in [*self.brokers.values(), *self._bootstrap]:
            try:
                return self._connection_at(address)
            except ConnectionFailed as error:
                failure = error
        assert failure is not None
        raise failure

    def connection_to(self, broker_id: BrokerId) -> Connection:
        address = self.brokers.get(broker_id)
        if address is None:
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in the metadata")
        return self._connection_at(address)

    def ask_any(self, message: ApiMessage, response_class: type[ResponseT]) -> ResponseT:
        return self.any_connection().request(message, response_class)

    def ask_controller(self, message: ApiMessage, response_class: type[ResponseT]) -> ResponseT:
        if self.controller_id not in self.brokers:
            self.refresh([])
        if self.controller_id not in self.brokers:
            raise BrokerError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
        return self.connection_to(self.controller_id).request(message, response_class)

    def refresh(self, topics: Sequence[str] | None = None) -> None:
        """Ask for the metadata of these topics, None for all; topics that don't exist are left out of the view."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer = self.ask_any(MetadataRequest(topics=asked, allow_auto_topic_creation=False), MetadataResponse)
        check(answer.error_code, "metadata")
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        self.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        if topics is None:
            self.topics.clear()
        for topic in answer.topics:
            name = topic.name
            assert name is not None, "topics are asked for by name"
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self.topics.pop(name, None)
                continue
            if topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                check(topic.error_code, f"metadata of topic {name}")
            self.topics[name] = sorted(
                PartitionView(
                    partition.partition_index,
                    partition.leader_id,
                    tuple(partition.replica_nodes),
                    tuple(partition.isr_nodes),
                )
                for partition in topic.partitions
            )

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; asks once when the topic isn't known yet."""
        if not self.topics.get(topic):
            self.refresh([topic])
        partitions = self.topics.get(topic)
        if not partitions:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic}")
        return len(partitions)

    def leader_of(self, place: TopicPartition) -> BrokerId:
        """The leader in the current view, NO_LEADER when there is none or the partition isn't known."""
        for partition in self.topics.get(place.topic, ()):
            if partition.partition == place.partition:
                return partition.leader_id
        return NO_LEADER

    def retry(self, attempt: Callable[[], T]) -> T:
        """Run `attempt` until it succeeds, fails for good, or `retry_timeout_ms` is over; waits grow in between."""
        deadline = time.monotonic() + self.retry_timeout_ms / 1000
        wait_ms = self._retry_backoff_ms
        while True:
            try:
                return attempt()
            except (ConnectionFailed, BrokerError) as error:
                is_final = isinstance(error, BrokerError) and not error.is_retriable
                if is_final or time.monotonic() + wait_ms / 1000 > deadline:
                    raise
            time.sleep(wait_ms / 1000)
            wait_ms = min(2 * wait_ms, self._retry_backoff_max_ms)

    def _connection_at(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = self.open_connection(address)
        return connection
