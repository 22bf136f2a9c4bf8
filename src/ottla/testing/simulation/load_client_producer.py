"""A producer for a run that is our own client: idempotent, with several batches of a partition in flight."""

from typing import Any, Final

from ottla.clients.config import ClientConfig
from ottla.clients.errors import ClientError
from ottla.clients.producer.core import ProducerCore
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.keys import PRODUCER_DEFINITION
from ottla.clients.producer.queues import TopicQueues
from ottla.core.types import TopicPartition
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.client import SimulatedClient
from ottla.testing.simulation.history import History

_NEVER_GIVES_UP_MS: Final = 3_600_000
_REQUEST_TIMEOUT_MS: Final = 5_000
_BACKOFF_S: Final = 0.2
_BURST_MAX: Final = 4  # batches at once: more than one is in flight


class LoadClientProducer:
    """Made by a run; `start` once, `stop` once. It is idle when `stop` was called and every record is acknowledged."""

    def __init__(
        self, client: SimulatedClient, history: History, topic: str, *, partitions: int, pause_s: float
    ) -> None:
        """`pause_s` is the time between two bursts, on average."""
        config = ClientConfig.parse(
            PRODUCER_DEFINITION,
            {
                "bootstrap.servers": client.bootstrap,
                "client.id": client.name,
                "linger.ms": 0,
                "batch.size": 64,  # a record or two each
                "delivery.timeout.ms": _NEVER_GIVES_UP_MS,
                "request.timeout.ms": _REQUEST_TIMEOUT_MS,
            },
        )
        self._client = client
        self._history = history
        self._topic = topic
        self._partitions = partitions
        self._pause_s = pause_s
        network = client.open_network(config.network_settings(), knows_brokers=False)
        self._core = ProducerCore(network, config, random=client.random)
        self._queues: TopicQueues | None = None
        self._is_stopped = False
        self._open = 0
        self._values = 0
        self.acked = 0

    @property
    def is_idle(self) -> bool:
        return self._is_stopped and not self._open

    def start(self) -> None:
        self._core.find_topic(self._topic, _NEVER_GIVES_UP_MS, self._on_topic)

    def stop(self) -> None:
        """Send nothing new; what is open is sent until it is acknowledged."""
        self._is_stopped = True

    def _on_topic(self, found: TopicQueues | ClientError) -> None:
        if isinstance(found, ClientError):
            self._client.loop.call_later(_BACKOFF_S, self.start)
            return
        self._queues = found
        self._send()

    def _send(self) -> None:
        if self._is_stopped:
            return
        assert self._queues is not None
        random = self._client.random
        partition = random.randrange(self._partitions)
        for _ in range(random.randint(1, _BURST_MAX)):
            self._send_one(TopicPartition(self._topic, partition))
        self._client.loop.call_later(random.expovariate(1 / self._pause_s), self._send)

    def _send_one(self, topic_partition: TopicPartition) -> None:
        assert self._queues is not None
        self._values += 1
        value = f"{self._client.name}/{self._values}".encode()
        self._history.sent(value, self._client.name, topic_partition, is_idempotent=True)
        handle = self._core.accumulator.append(
            self._queues, topic_partition.partition, None, value, (), self._client.loop.clock()
        )
        assert handle is not None, "there is memory for what a run sends"
        self._open += 1

        def on_done(done: SendHandle) -> None:
            # Not here: the client would only log what is raised.
            self._client.loop.call_soon(lambda: self._on_done(topic_partition, value, done))

        handle.add_callback(on_done)

    def _on_done(self, topic_partition: TopicPartition, value: bytes, handle: SendHandle) -> None:
        self._open -= 1
        error: Any = handle.exception(0)
        if error is not None:
            raise BrokenRule("an idempotent producer can go on", f"{self._client.name}, {topic_partition}: {error}")
        self.acked += 1
        self._history.acked(value, topic_partition, handle.result(0).offset)
