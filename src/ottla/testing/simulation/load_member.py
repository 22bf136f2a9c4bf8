"""A member of a consumer group for a run: our own consumer, that reads, commits, leaves and comes back."""

from collections.abc import Sequence
from typing import Final

from ottla.broker.steps import Running
from ottla.clients.consumer.listener import RebalanceListener
from ottla.clients.consumer.rebalance import Phase
from ottla.clients.consumer.values import OffsetAndMetadata
from ottla.clients.errors import ClientError
from ottla.core.types import Offset, TopicPartition
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.consumer import SimulatedConsumer, sleep
from ottla.testing.simulation.history import NO_COMMIT, History

_POLL_MS: Final = 500
_COMMIT_CHANCE: Final = 0.3  # after each poll with records
_COMMIT_TIMEOUT_MS: Final = 5_000
_CLOSE_TIMEOUT_MS: Final = 3_000
_BACKOFF_S: Final = 0.2
_CRASH_CHANCE: Final = 0.3  # that it goes without leaving its group
_AWAY_MAX_S: Final = 3.0


class LoadMember(RebalanceListener):
    """Made by a run; `start` once, `stop` once. `is_done` when nothing of it is open any more."""

    def __init__(self, client: SimulatedClient, history: History, topic: str, *, group: str, lives_s: float) -> None:
        """`lives_s` is how long it stays in the group, on average."""
        self._client = client
        self._history = history
        self._topic = topic
        self._group = group
        self._lives_s = lives_s
        self._lives = 0
        self._consumer: SimulatedConsumer | None = None
        self._next_offsets: dict[TopicPartition, Offset] = {}  # of the partitions that it owns
        self._is_stopped = False
        self._running: Running[None] | None = None
        self.is_done = False
        self.rebalances = 0
        self.committed = 0

    @property
    def is_rebalancing(self) -> bool:
        group = self._consumer.core.group if self._consumer is not None else None
        return group is not None and group.phase in (Phase.JOINING, Phase.SYNCING)

    def start(self) -> None:
        self._running = Running(self._run(), self._on_done)

    def stop(self) -> None:
        self._is_stopped = True

    def _on_done(self, _: None, error: Exception | None) -> None:
        if error is not None:
            raise error
        self.is_done = True

    async def _run(self) -> None:
        loop, random = self._client.loop, self._client.random
        while not self._is_stopped:
            self._lives += 1
            consumer = self._consumer = SimulatedConsumer(
                self._client,
                group_id=self._group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=1_000,
                default_api_timeout_ms=10_000,
                request_timeout_ms=5_000,
            )
            ends_at = loop.time() + random.expovariate(1 / self._lives_s)
            await consumer.session.subscribe([self._topic], self)
            while loop.time() < ends_at and not self._is_stopped:
                await self._poll(consumer)
            self._next_offsets.clear()
            if random.random() < _CRASH_CHANCE and not self._is_stopped:
                consumer.core.close()
                consumer.drop()
            else:
                try:
                    await consumer.close(_CLOSE_TIMEOUT_MS)
                except ClientError:
                    pass  # the group finds out by itself
            await sleep(loop, random.random() * _AWAY_MAX_S)

    async def _poll(self, consumer: SimulatedConsumer) -> None:
        try:
            records = await consumer.session.poll(_POLL_MS)
            for record in records:
                topic_partition = TopicPartition(record.topic, record.partition)
                self._history.read(topic_partition, record.offset, record.value or b"", self._name)
                self._next_offsets[topic_partition] = record.offset + 1
            if records and self._client.random.random() < _COMMIT_CHANCE:
                await self._commit(consumer)
        except ClientError:
            await sleep(self._client.loop, _BACKOFF_S)

    async def _commit(self, consumer: SimulatedConsumer) -> None:
        offsets = dict(self._next_offsets)
        for topic_partition, offset in offsets.items():
            self._history.commit_sent(self._group, topic_partition, offset)
        await consumer.session.commit(
            {topic_partition: OffsetAndMetadata(offset) for topic_partition, offset in offsets.items()},
            _COMMIT_TIMEOUT_MS,
        )
        for topic_partition, offset in offsets.items():
            self._history.commit_acked(self._group, topic_partition, offset)
        self.committed += 1

    async def read_committed(self, partitions: Sequence[TopicPartition]) -> None:
        """What the group has committed, into the history; when no member is there any more."""
        consumer = SimulatedConsumer(self._client, group_id=self._group)
        while True:
            try:
                found = await consumer.session.committed(partitions, _COMMIT_TIMEOUT_MS)
                break
            except ClientError:
                await sleep(self._client.loop, _BACKOFF_S)
        for topic_partition, committed in found.items():
            offset = NO_COMMIT if committed is None else committed.offset
            self._history.commit_read(self._group, topic_partition, offset)
        consumer.core.close()
        consumer.drop()

    @property
    def _name(self) -> str:
        """Another one in each life: it may begin with what it has read before."""
        return f"{self._client.name}/{self._lives}"

    # Rebalances

    def on_partitions_assigned(self, topic_partitions: Sequence[TopicPartition]) -> None:
        assert self._consumer is not None
        self.rebalances += 1
        identity = self._consumer.core.identity()
        for topic_partition in topic_partitions:
            self._history.sought(topic_partition, self._name)
            if identity.generation_id >= 0:
                self._history.owned(self._group, identity.generation_id, identity.member_id, topic_partition)

    def on_partitions_revoked(self, topic_partitions: Sequence[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self._next_offsets.pop(topic_partition, None)
