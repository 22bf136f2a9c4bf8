"""A client that moves the starts of logs up: DeleteRecords now and then, somewhere in what a reader has read."""

from collections.abc import Sequence
from typing import Any, Final

from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition
from ottla.links.errors import ClientError
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.history import History
from ottla.testing.simulation.load_reader import LoadReader
from ottla.testing.simulation.requests import delete_records
from ottla.testing.simulation.topic_leaders import NOT_KNOWN, TopicLeaders

_TIMEOUT_MS: Final = 5_000


class LoadLogStart:
    """Made by a run; `start` once, `stop` once. It is idle when `stop` was called and nothing is open."""

    def __init__(
        self,
        client: SimulatedClient,
        history: History,
        topic: str,
        reader: LoadReader,
        *,
        brokers: Sequence[BrokerId],
        pause_s: float,
    ) -> None:
        """`reader` says what is committed surely; `pause_s` is the time between two requests, on average."""
        self._client = client
        self._history = history
        self._topic = topic
        self._reader = reader
        self._leaders = TopicLeaders(client, topic, list(brokers))
        self._pause_s = pause_s
        self._is_stopped = False
        self._is_waiting = False

    @property
    def is_idle(self) -> bool:
        return self._is_stopped and not self._is_waiting

    def start(self) -> None:
        self._client.loop.call_later(self._client.random.expovariate(1 / self._pause_s), self._delete)

    def stop(self) -> None:
        self._is_stopped = True

    def _delete(self) -> None:
        if self._is_stopped:
            return
        random = self._client.random
        partition = random.randrange(len(self._reader.next_offsets))
        leader = self._leaders.leader_of(partition)
        before_offset = random.randint(0, self._reader.next_offsets[partition])
        if leader == NOT_KNOWN or not before_offset:
            self._leaders.refresh()
            self.start()
            return
        topic_partition = TopicPartition(self._topic, partition)
        self._history.deletion_asked(topic_partition, before_offset)
        self._is_waiting = True
        delete_records(
            self._client,
            leader,
            topic_partition,
            before_offset,
            timeout_ms=_TIMEOUT_MS,
            on_response=self._on_deleted,
        )

    def _on_deleted(self, response: Any) -> None:
        self._is_waiting = False
        if isinstance(response, ClientError) or response.topics[0].partitions[0].error_code != ErrorCode.NONE:
            self._leaders.refresh()
        self.start()
