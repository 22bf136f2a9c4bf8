"""A client process of a simulation: requests to brokers over simulated connections, and who leads which partition.

It is small on purpose: what it sends and how often is up to the writers and readers of `workload.py`, so that a rule
that is broken was broken by the brokers.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from ottla.clients.network.base import BaseNetwork
from ottla.clients.network.port import ANY_BROKER
from ottla.core.types import BrokerId, TopicPartition
from ottla.links.addresses import Address
from ottla.links.errors import ClientError
from ottla.links.link import ClientLoop, Timer
from ottla.links.settings import NetworkSettings
from ottla.links.wire import Channel, Wire
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_SETTINGS: Final = NetworkSettings(
    request_timeout_ms=5_000, reconnect_backoff_max_ms=500, setup_timeout_ms=1_000, setup_timeout_max_ms=2_000
)
_REFRESH_AFTER_MS: Final = 100


class SimulatedClient(BaseNetwork):
    """The client loop of one simulated process. It refreshes its metadata when somebody says that it is stale."""

    def __init__(self, loop: ClientLoop, bootstrap: str, topics: list[str], *, name: str, random: Random) -> None:
        self._loop = loop
        super().__init__(bootstrap, client_id=name, settings=_SETTINGS, random=random)
        self.name = name
        self.random = random
        self.leaders: dict[TopicPartition, BrokerId] = {}
        self.on_metadata: list[Callable[[], None]] = []
        self._topics = topics
        self._is_refreshing = False
        self.refresh()

    # The client loop

    def now_ms(self) -> int:
        return self._loop.now_ms()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def open(self, address: Address, wire: Wire) -> Channel:
        return self._loop.open(address, wire)

    # Metadata

    def refresh(self) -> None:
        """Ask for the leaders again, if that is not under way."""
        if not self._is_refreshing:
            self._is_refreshing = True
            self.call_later(_REFRESH_AFTER_MS, self._ask)

    def _ask(self) -> None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in self._topics], allow_auto_topic_creation=False
        )
        self.request(ANY_BROKER, request, self._on_metadata, versions=(9, 9), timeout_ms=2_000)

    def _on_metadata(self, answer: MetadataResponse | ClientError) -> None:
        self._is_refreshing = False
        if isinstance(answer, ClientError):
            self.refresh()
            return
        if answer.brokers:
            self.set_brokers({broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers})
        for topic in answer.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name or "", partition.partition_index)
                if partition.error_code or partition.leader_id < 0:
                    self.leaders.pop(key, None)
                else:
                    self.leaders[key] = partition.leader_id
        for listener in self.on_metadata:
            listener()
