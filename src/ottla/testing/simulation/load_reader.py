"""A client that reads for a run: every partition of a topic from its start, from whoever leads it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ottla.clients.error_rules import RETRIABLE
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from ottla.links.errors import ClientError
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.history import History
from ottla.testing.simulation.requests import Fetched, fetch
from ottla.testing.simulation.topic_leaders import NOT_KNOWN, TopicLeaders

Leader: TypeAlias = tuple[BrokerId, LeaderEpoch]
KnownLeader: TypeAlias = Callable[[BrokerId, TopicPartition], Leader | None]

_BACKOFF_S: Final = 0.1
_MAX_WAIT_MS: Final = 500


class LoadReader:
    """Made by a run; reads from `start` on. Fetches hold their connection, so each partition has a client."""

    def __init__(
        self,
        clients: Sequence[SimulatedClient],
        history: History,
        topic: str,
        *,
        brokers: Sequence[BrokerId],
        topic_id: bytes | None = None,
        known_leader: KnownLeader | None = None,
    ) -> None:
        """With `topic_id` it reads that topic only, whatever has its name by now. `known_leader` looks into a broker:
        one that knew all the while that it does not lead must not answer."""
        self._known_leader = known_leader or _unknown
        self._clients = clients
        self._history = history
        self._topic = topic
        self._topic_id = topic_id
        self._is_stopped = False
        self._leaders = [TopicLeaders(client, topic, list(brokers), topic_id=topic_id) for client in clients]
        self.next_offsets: list[Offset] = [0] * len(clients)

    def start(self) -> None:
        for partition in range(len(self._clients)):
            self._fetch(partition)

    def stop(self) -> None:
        """Read nothing any more; what is still answered is not noted."""
        self._is_stopped = True

    def _fetch(self, partition: int) -> None:
        if self._is_stopped:
            return
        leader = self._leaders[partition].leader_of(partition)
        if leader == NOT_KNOWN:
            self._fetch_later(partition)
            return
        known = self._known_leader(leader, TopicPartition(self._topic, partition))
        fetch(
            self._clients[partition],
            leader,
            self._topic_id or self._topic,
            partition,
            self.next_offsets[partition],
            max_wait_ms=_MAX_WAIT_MS,
            on_response=partial(self._on_fetched, partition, leader, known),
        )

    def _fetch_later(self, partition: int) -> None:
        client = self._clients[partition]
        self._leaders[partition].refresh()
        client.loop.call_later(_BACKOFF_S * (0.5 + client.random.random()), partial(self._fetch, partition))

    def _on_fetched(self, partition: int, asked: BrokerId, known: Leader | None, response: Any) -> None:
        if self._is_stopped:
            return
        if isinstance(response, ClientError):
            self._fetch_later(partition)
            return
        assert isinstance(response, Fetched)
        if response.error_code == ErrorCode.NONE:
            self._judge_answer(TopicPartition(self._topic, partition), asked, known)
            self._take(partition, response)
            self._fetch(partition)
        elif response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._go_to_start(partition, response.log_start_offset)
        elif response.error_code in RETRIABLE:
            self._fetch_later(partition)
        else:
            raise BrokenRule(
                "what was read can be read on from",
                f"{self._topic}-{partition} offset {self.next_offsets[partition]}: error {response.error_code}",
            )

    def _judge_answer(self, topic_partition: TopicPartition, asked: BrokerId, known: Leader | None) -> None:
        if known is not None and known[0] != asked and self._known_leader(asked, topic_partition) == known:
            raise BrokenRule(
                "only a leader answers consumers",
                f"{topic_partition}: broker {asked} answered, and knew broker {known[0]} as leader in epoch {known[1]}",
            )

    def _take(self, partition: int, fetched: Fetched) -> None:
        client = self._clients[partition]
        for offset, value in fetched.records:
            self._history.read(TopicPartition(self._topic, partition), offset, value or b"", client.name)
            self.next_offsets[partition] = offset + 1

    def _go_to_start(self, partition: int, log_start_offset: Offset) -> None:
        """The log begins later by now; an end that lies before what was read is a loss."""
        client, topic_partition = self._clients[partition], TopicPartition(self._topic, partition)
        offset = self.next_offsets[partition]
        if offset >= log_start_offset and topic_partition not in self._history.lossy:
            raise BrokenRule(
                "what was read can be read on from",
                f"{topic_partition} offset {offset} is out of range; the log starts at {log_start_offset}",
            )
        self._history.sought(topic_partition, client.name)
        self.next_offsets[partition] = max(log_start_offset, 0)
        self._fetch_later(partition)


def _unknown(_: BrokerId, __: TopicPartition) -> None:
    """Nobody looks into brokers."""
