"""A topic that is deleted and made anew again and again, rather when a broker is down; each one has its own readers
and producer.

What is deleted must not come back: no record of one topic may be read from the next one of the same name.
"""

from collections.abc import Sequence
from typing import Final

from ottla.core.types import BrokerId
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.history import History
from ottla.testing.simulation.load_producer import LoadProducer
from ottla.testing.simulation.load_reader import LoadReader
from ottla.testing.simulation.requests import create_topic, delete_topic
from ottla.testing.simulation.stored_topics import stored_topic_id

_LOOK_EVERY_S: Final = 0.2
_ASK_EVERY: Final = 4  # looks
_LIVES_S: Final = 2.0  # on average, before it may be deleted
_PATIENCE_S: Final = 6.0  # with brokers that all serve
_REQUEST_TIMEOUT_MS: Final = 3_000


class RemadeTopic:
    """Made by a run; `start` once, `stop` once. When it is idle, there is a topic, and nothing is open."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        history: History,
        topic: str,
        *,
        brokers: Sequence[BrokerId],
        replication_factor: int,
        pause_s: float,
    ) -> None:
        self.topic = topic
        self.topic_id: bytes | None = None  # of the one that there is; None while one is deleted or made
        self.reader: LoadReader | None = None
        self.made = 0
        self._cluster = cluster
        self._client = cluster.client("topic-maker")
        self._producer_client = cluster.client(f"{topic}-producer")
        self._reader_client = cluster.client(f"{topic}-reader")
        self._history = history
        self._brokers = list(brokers)
        self._replication_factor = replication_factor
        self._pause_s = pause_s
        self._producer: LoadProducer | None = None
        self._last_id: bytes | None = None
        self._looks = 0
        self._is_stopped = False

    @property
    def is_idle(self) -> bool:
        return self._is_stopped and self._producer is not None and self._producer.is_idle

    def start(self) -> None:
        self._looks = 0
        self._make()

    def stop(self) -> None:
        """The topic that there is stays; one that is being deleted is still made anew."""
        self._is_stopped = True
        if self._producer is not None:
            self._producer.stop()

    def _make(self) -> None:
        topic_id = stored_topic_id(self._cluster, self.topic)
        if topic_id not in (None, self._last_id):
            assert topic_id is not None
            self._on_made(topic_id)
            return
        if self._looks % _ASK_EVERY == 0:
            create_topic(
                self._client,
                self._client.random.choice(self._brokers),
                self.topic,
                replication_factor=self._replication_factor,
                timeout_ms=_REQUEST_TIMEOUT_MS,
            )
        self._looks += 1
        self._client.loop.call_later(_LOOK_EVERY_S, self._make)

    def _on_made(self, topic_id: bytes) -> None:
        self.made += 1
        self.topic_id = self._last_id = topic_id
        self._history.deleted(self.topic)
        self._producer = LoadProducer(
            self._producer_client,
            self._history,
            self.topic,
            partitions=1,
            brokers=self._brokers,
            pause_s=self._pause_s,
            name=f"{self._producer_client.name}.{self.made}",
            topic_id=topic_id,
        )
        self.reader = LoadReader(
            [self._reader_client], self._history, self.topic, brokers=self._brokers, topic_id=topic_id
        )
        self.reader.start()
        if self._is_stopped:
            self._producer.stop()
            return
        self._producer.start()
        lives_s = self._client.random.expovariate(1 / _LIVES_S)
        self._looks = 0
        self._client.loop.call_later(lives_s, self._maybe_delete)

    def _maybe_delete(self) -> None:
        """Wait for a broker that is down, for some time."""
        if self._is_stopped:
            return
        self._looks += 1
        is_worth_it = not all(broker.is_up for broker in self._cluster.brokers.values())
        if not is_worth_it and self._looks * _LOOK_EVERY_S < _PATIENCE_S:
            self._client.loop.call_later(_LOOK_EVERY_S, self._maybe_delete)
            return
        assert self._producer is not None and self.reader is not None
        self._producer.drop()
        self.reader.stop()
        self._producer, self.reader, self.topic_id = None, None, None
        self._looks = 0
        self._delete()

    def _delete(self) -> None:
        assert self._last_id is not None
        if stored_topic_id(self._cluster, self.topic) != self._last_id:
            self.start()
            return
        if self._looks % _ASK_EVERY == 0:
            broker_id = self._client.random.choice(self._brokers)
            delete_topic(self._client, broker_id, self._last_id, timeout_ms=_REQUEST_TIMEOUT_MS)
        self._looks += 1
        self._client.loop.call_later(_LOOK_EVERY_S, self._delete)
