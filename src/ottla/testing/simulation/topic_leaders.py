"""Who leads the partitions of one topic, as a client of a simulation knows it from metadata."""

from typing import Any, Final

from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, LeaderEpoch
from ottla.links.errors import ClientError
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.testing.simulation.client import SimulatedClient

_TIMEOUT_MS: Final = 3_000
NOT_KNOWN: Final[BrokerId] = -1


class TopicLeaders:
    """One for each client and topic. What it knows may be old: whoever finds that out calls `refresh`."""

    def __init__(
        self, client: SimulatedClient, topic: str, brokers: list[BrokerId], *, topic_id: bytes | None = None
    ) -> None:
        """With `topic_id`, other topics of the same name count for nothing: one before it, one after it."""
        self._client = client
        self._topic = topic
        self._topic_id = topic_id
        self._brokers = brokers
        self._is_asking = False
        self._leaders: dict[int, tuple[BrokerId, LeaderEpoch]] = {}

    def leader_of(self, partition: int) -> BrokerId:
        """NOT_KNOWN if it has none, or none is known."""
        return self._leaders.get(partition, (NOT_KNOWN, 0))[0]

    def leader_epoch_of(self, partition: int) -> LeaderEpoch:
        return self._leaders.get(partition, (NOT_KNOWN, -1))[1]

    def refresh(self) -> None:
        """Ask any broker; one request at a time."""
        if self._is_asking:
            return
        self._is_asking = True
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False)
        broker_id = self._client.random.choice(self._brokers)
        self._client.request(broker_id, request, self._on_response, timeout_ms=_TIMEOUT_MS)

    def _on_response(self, response: Any) -> None:
        self._is_asking = False
        if isinstance(response, ClientError):
            return
        for topic in response.topics:
            if topic.name != self._topic or topic.error_code != ErrorCode.NONE:
                continue
            if self._topic_id not in (None, topic.topic_id):
                continue
            for partition in topic.partitions:
                known_epoch = self.leader_epoch_of(partition.partition_index)
                if partition.leader_epoch >= known_epoch:  # a broker may lag behind what another one said
                    self._leaders[partition.partition_index] = (partition.leader_id, partition.leader_epoch)
