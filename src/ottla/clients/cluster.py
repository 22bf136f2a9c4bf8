"""The admin client's view of a cluster: brokers and partition leaders, and blocking requests to each broker.

The view is as old as its last `refresh`; a caller that gets an error because a leader moved refreshes it and retries.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self, TypeVar

from ottla import __version__
from ottla.clients.cluster_view import NO_LEADER, PartitionInfo, TopicInfo, addresses_in, topic_info
from ottla.clients.errors import BrokerError, ConnectionFailed, check
from ottla.clients.network.blocking import BlockingNetwork
from ottla.clients.network.port import ANY_BROKER
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition
from ottla.links.addresses import Address, parse_bootstrap
from ottla.links.backoff import Backoff
from ottla.links.settings import NetworkSettings
from ottla.protocol.apis import ApiKey
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

DEFAULT_CLIENT_ID: Final = "ottla"
CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000
RETRY_TIMEOUT_MS: Final = 30_000
RETRY_BACKOFF_MS: Final = 20
RETRY_BACKOFF_MAX_MS: Final = 1_000

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class ClusterBroker:
    """One broker of a cluster; the first request connects."""

    __slots__ = ("_network", "broker_id")

    def __init__(self, broker_id: BrokerId, network: BlockingNetwork) -> None:
        self.broker_id = broker_id
        self._network = network

    def request(
        self, message: ApiMessage, response_class: type[ResponseT], *, versions: tuple[int, int] | None = None
    ) -> ResponseT:
        """Send and wait for the answer, in the highest version that both sides support, within `versions` if given."""
        answer = self._network.ask(self.broker_id, message, versions=versions)
        assert isinstance(answer, response_class)
        return answer

    def serves(self, api_key: int, *, version: int = 0) -> bool:
        """Whether it serves an API in this version or a later one."""
        self.connect()
        theirs = self._network.serves(self.broker_id, api_key)
        return theirs is not None and theirs[1] >= version

    def connect(self) -> None:
        """Connect; afterwards the versions of the broker are known."""
        if self._network.serves(self.broker_id, ApiKey.API_VERSIONS) is None:
            request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
            self._network.ask(self.broker_id, request)


class Cluster:
    """For one thread at a time. Connections open when first needed and stay open; `close` closes them all."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = DEFAULT_CLIENT_ID,
        settings: NetworkSettings | None = None,
        retry_timeout_ms: int = RETRY_TIMEOUT_MS,
        backoff: Backoff | None = None,
    ) -> None:
        self.client_id = client_id
        self.settings = settings or NetworkSettings()
        self.retry_timeout_ms = retry_timeout_ms
        self.cluster_id: str | None = None
        self.controller_id: BrokerId = NO_LEADER
        self.brokers: dict[BrokerId, Address] = {}
        self.topics: dict[str, TopicInfo] = {}
        parse_bootstrap(bootstrap)  # raises here if it is invalid
        self._bootstrap = bootstrap
        self._backoff = backoff or Backoff(first_ms=RETRY_BACKOFF_MS, max_ms=RETRY_BACKOFF_MAX_MS)
        self._opened: BlockingNetwork | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; later requests connect again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
            self.brokers = {}

    @property
    def _network(self) -> BlockingNetwork:
        if self._opened is None:
            self._opened = self._new_network()
        return self._opened

    def _new_network(self) -> BlockingNetwork:
        return BlockingNetwork(self._bootstrap, client_id=self.client_id, settings=self.settings)

    def any_broker(self) -> ClusterBroker:
        """Any broker that can be reached, connected."""
        if not self.brokers:
            self.refresh([])
        for _ in range(2):
            for broker_id in self.brokers:
                broker = ClusterBroker(broker_id, self._network)
                try:
                    broker.connect()
                except ConnectionFailed:
                    continue
                return broker
            self.refresh([])  # from the bootstrap servers if necessary: all known brokers may be gone
        raise ConnectionFailed(f"none of the brokers {', '.join(map(str, self.brokers.values()))} was reached")

    def broker(self, broker_id: BrokerId) -> ClusterBroker:
        if broker_id not in self.brokers:
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in the metadata")
        return ClusterBroker(broker_id, self._network)

    def ask_any(self, message: ApiMessage, response_class: type[ResponseT]) -> ResponseT:
        answer = self._network.ask(ANY_BROKER, message)
        assert isinstance(answer, response_class)
        return answer

    def ask_controller(self, message: ApiMessage, response_class: type[ResponseT]) -> ResponseT:
        if self.controller_id not in self.brokers:
            self.refresh([])
        if self.controller_id not in self.brokers:
            raise BrokerError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
        return self.broker(self.controller_id).request(message, response_class)

    def refresh(self, topics: Sequence[str] | None = None) -> None:
        """Fetch the metadata of these topics, or with None of all; topics that don't exist are left out of the view."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        # Version 0 can't ask for no topics: an empty list means all.
        answer: MetadataResponse = self._network.ask(ANY_BROKER, request, versions=(1, MetadataRequest.VERSIONS[1]))
        check(answer.error_code, "metadata")
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        self.brokers = addresses_in(answer)
        self._network.set_brokers(self.brokers)
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
            self.topics[name] = topic_info(topic, self.topics.get(name))

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; fetches metadata once if the topic isn't known yet."""
        if not self.partitions_of(topic):
            self.refresh([topic])
        partitions = self.partitions_of(topic)
        if not partitions:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic}")
        return len(partitions)

    def partitions_of(self, topic: str) -> Mapping[int, PartitionInfo]:
        """The partitions in the current view, by number; none for an unknown topic."""
        info = self.topics.get(topic)
        return {} if info is None else info.partitions

    def leader_of(self, topic_partition: TopicPartition) -> BrokerId:
        """The leader in the current view; NO_LEADER if there is none or the partition isn't known."""
        partition = self.partitions_of(topic_partition.topic).get(topic_partition.partition)
        return NO_LEADER if partition is None else partition.leader_id

    def retry(self, attempt: Callable[[], T]) -> T:
        """Run `attempt` until it succeeds, fails with a final error, or `retry_timeout_ms` is over."""
        deadline = time.monotonic() + self.retry_timeout_ms / 1000
        failures = 0
        while True:
            wait_ms = self._backoff.delay_ms(failures)
            try:
                return attempt()
            except (ConnectionFailed, BrokerError) as error:
                is_final = isinstance(error, BrokerError) and not error.is_retriable
                if is_final or time.monotonic() + wait_ms / 1000 > deadline:
                    raise
            time.sleep(wait_ms / 1000)
            failures += 1
