"""confluent-kafka (librdkafka) as the client: how fast a real producer and consumer get on with the broker."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bench.model import Metric
from bench.peers import Peer

_STALL_SECONDS = 30.0


class ClientRoundTrip:
    """Produce `count` records to one partition, wait for all acknowledgements, then consume them by assignment."""

    def __init__(
        self,
        name: str,
        title: str,
        metrics: Sequence[Metric],
        *,
        value_bytes: int,
        count: int,
        producer_config: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.metrics = metrics
        self._values = _text_like(value_bytes)
        self._count = count
        self._producer_config = producer_config or {}

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        topic = f"{self.name}-{round_number}"
        peer.create_topic(topic)
        try:
            bootstrap, count = peer.broker.bootstrap, self._count
            with peer.cpu_watch():
                produced = produce_records(bootstrap, topic, self._values, count=count, config=self._producer_config)
                consumed = consume_records(bootstrap, topic, count=count)
        finally:
            peer.drop_topic(topic)
        return {"produce": self._count / produced, "consume": self._count / consumed}


def _text_like(value_bytes: int) -> list[bytes]:
    """256 different values that compress about as logs do, so that the codec has real work."""
    line = b'{"user":%07d,"page":"/article/%05d","agent":"Mozilla/5.0","ms":%04d} '
    lines = [line % (n * 7919 % 9999991, n * 104729 % 99991, n * 31 % 9973) for n in range(5000)]
    text = b"".join(lines)
    return [(text[start : start + value_bytes] * 2)[:value_bytes] for start in range(0, 256 * 677, 677)]


def produce_records(
    bootstrap: str, topic: str, values: Sequence[bytes], *, count: int, config: Mapping[str, str | int | bool]
) -> float:
    """Seconds from the first record to the last acknowledgement."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 512 * 1024,
            "acks": 1,
            "log_level": 0,
            **config,
        }
    )
    # One record beforehand: the case is about records, not about the first handshake. librdkafka asks for a producer
    # id on a timer of 500 ms: the first idempotent record takes that long from the client's creation, at any broker.
    producer.produce(topic, values[0], partition=0)
    if producer.flush(30):
        raise RuntimeError(f"{topic}: the first record is unacknowledged after 30 s")
    produce, poll = producer.produce, producer.poll
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    started = time.perf_counter()
    sent = 0
    while sent < count - 1:
        try:
            produce(topic, values[sent & 0xFF], partition=0)
        except BufferError:
            poll(0.01)
            continue
        sent += 1
    # A report for each record would cost the client more than the rest. One is enough to see a topic that refuses;
    # the consumer counts what arrived.
    produce(topic, values[0], partition=0, on_delivery=on_delivery)
    left = producer.flush(120)
    seconds = time.perf_counter() - started
    if left or failures:
        raise RuntimeError(f"{topic}: {left} records unacknowledged after 120 s, failures {failures[:1]}")
    return seconds


def consume_records(bootstrap: str, topic: str, *, count: int) -> float:
    """Seconds from the assignment to the last of `count` records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            # Its default of 1000 ms makes librdkafka sit still whenever a fast broker fills its queue.
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
        }
    )
    consumer.list_topics(topic, timeout=10)
    started = time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    consumed = 0
    last_progress = started
    while consumed < count:
        # Never more than are left: it would wait out its whole timeout for records that do not exist.
        messages = consumer.consume(min(10_000, count - consumed), timeout=0.5)
        if messages:
            failed = messages[0].error() or messages[-1].error()
            if failed is not None:
                raise KafkaException(failed)
            consumed += len(messages)
            last_progress = time.perf_counter()
        elif time.perf_counter() - last_progress > _STALL_SECONDS:
            raise RuntimeError(f"{topic}: {consumed} of {count} records consumed, nothing for {_STALL_SECONDS} s")
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def client_cases(scale: float) -> list[ClientRoundTrip]:
    def case(name: str, title: str, value_bytes: int, count: int, produce_goal: float,
             config: Mapping[str, str | int | bool] | None = None) -> ClientRoundTrip:  # fmt: skip
        metrics = [Metric("produce", "/s", goal=produce_goal), Metric("consume", "/s", goal=1.0)]
        return ClientRoundTrip(name, f"confluent-kafka, {title}", metrics, value_bytes=value_bytes,
                               count=int(count * scale), producer_config=config)  # fmt: skip

    idempotent: dict[str, str | int | bool] = {"enable.idempotence": True, "acks": "all"}
    return [
        case("client-100b", "100 B", 100, 1_500_000, 1.0),
        case("client-1k", "1 KB", 1000, 500_000, 1.3),
        case("client-1k-idempotent", "1 KB idempotent", 1000, 500_000, 1.3, idempotent),
        case("client-1k-lz4", "1 KB lz4", 1000, 750_000, 1.0, {"compression.type": "lz4"}),
        case("client-10k", "10 KB", 10_000, 60_000, 1.3),
    ]
