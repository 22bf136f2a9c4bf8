"""confluent-kafka (librdkafka)."""

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bench.clients.job import (
    BATCH_BYTES,
    BUFFER_BYTES,
    FETCH_WAIT_MS,
    LINGER_MS,
    POLL_RECORDS,
    STALL_SECONDS,
    WARM_UP_PARTITION,
    WORK_PARTITION,
    Job,
    Outcome,
    text_like,
)


def produce(job: Job) -> Outcome:
    values = text_like(job.value_bytes)
    producer = Producer(
        {
            "bootstrap.servers": job.bootstrap,
            "acks": 1,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": BUFFER_BYTES // 1024,
            "log_level": 0,
        }
    )
    topic = job.topic
    producer.produce(topic, b"first")
    if producer.flush(STALL_SECONDS):
        raise RuntimeError(f"{topic}: the first record is unacknowledged")
    produce, poll = producer.produce, producer.poll
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    started = time.perf_counter()
    sent = 0
    last = job.record_count - 1
    while sent < last:
        try:
            produce(topic, values[sent & 0xFF])
        except BufferError:
            poll(0.01)
            continue
        sent += 1
    # A report for each record would cost it more than the rest; one is enough to see a topic that refuses.
    produce(topic, values[last & 0xFF], on_delivery=on_delivery)
    left = producer.flush(STALL_SECONDS)
    seconds = time.perf_counter() - started
    if left or failures:
        raise RuntimeError(f"{topic}: {left} records unacknowledged, failures {failures[:1]}")
    return Outcome(seconds, job.record_count * job.value_bytes)


def consume(job: Job) -> Outcome:
    """Each record's value is looked at."""
    return _consume(job, looks=True)


def consume_lists(job: Job) -> Outcome:
    """Nothing but `consume()`: the lists are counted, no record is looked at."""
    return _consume(job, looks=False)


def _consume(job: Job, *, looks: bool) -> Outcome:
    consumer = _consumer(job)
    consumer.assign([TopicPartition(job.topic, WARM_UP_PARTITION, OFFSET_BEGINNING)])
    if not consumer.consume(1, timeout=STALL_SECONDS):
        raise RuntimeError(f"{job.topic}: the first record did not come within {STALL_SECONDS} s")
    started = time.perf_counter()
    consumer.assign([TopicPartition(job.topic, WORK_PARTITION, OFFSET_BEGINNING)])
    seen_bytes = _read(consumer, job, looks=looks)
    seconds = time.perf_counter() - started
    consumer.close()
    return Outcome(seconds, seen_bytes)


def _consumer(job: Job) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            # Its default of 1000 ms makes librdkafka sit still whenever a fast broker fills its queue.
            "fetch.queue.backoff.ms": 1,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "log_level": 0,
        }
    )


def _read(consumer: Consumer, job: Job, *, looks: bool) -> int:
    """The bytes of all values, or what they must be where nobody looks."""
    seen = seen_bytes = 0
    last = time.perf_counter()
    while seen < job.record_count:
        # Never more than are left: it would wait out its whole timeout for records that do not exist.
        messages = consumer.consume(min(POLL_RECORDS, job.record_count - seen), timeout=0.5)
        if messages:
            failed = messages[0].error() or messages[-1].error()
            if failed is not None:
                raise KafkaException(failed)
            if looks:
                for message in messages:
                    seen_bytes += len(message.value() or b"")
            seen += len(messages)
            last = time.perf_counter()
        elif time.perf_counter() - last > STALL_SECONDS:
            raise RuntimeError(
                f"{job.topic}: {seen} of {job.record_count} records consumed, nothing for {STALL_SECONDS} s"
            )
    return seen_bytes if looks else job.record_count * job.value_bytes


def fill(job: Job) -> Outcome:
    """The topic that a race of consumers reads: the work, and one record to get going with."""
    return _fill(job, [WORK_PARTITION], [WARM_UP_PARTITION])


def fill_all(job: Job) -> Outcome:
    """`count` records, shared out evenly over all of the topic's partitions."""
    return _fill(job, None, [])


def _fill(job: Job, partitions: list[int] | None, single: list[int]) -> Outcome:
    values = text_like(job.value_bytes)
    config = {"bootstrap.servers": job.bootstrap, "batch.size": BATCH_BYTES, "linger.ms": LINGER_MS, "log_level": 0}
    producer = Producer({**config, "queue.buffering.max.messages": 500_000})
    started = time.perf_counter()
    if partitions is None:
        partitions = list(producer.list_topics(job.topic, timeout=STALL_SECONDS).topics[job.topic].partitions)
    for partition in single:
        producer.produce(job.topic, values[0], partition=partition)
    sent = 0
    while sent < job.record_count:
        try:
            producer.produce(job.topic, values[sent & 0xFF], partition=partitions[sent % len(partitions)])
        except BufferError:
            producer.poll(0.01)
            continue
        sent += 1
    if producer.flush(STALL_SECONDS):
        raise RuntimeError(f"{job.topic}: not all records were acknowledged")
    return Outcome(time.perf_counter() - started, job.record_count * job.value_bytes)


def consume_all(job: Job) -> Outcome:
    """All partitions, for the memory that it takes."""
    consumer = _consumer(job)
    partitions = consumer.list_topics(job.topic, timeout=STALL_SECONDS).topics[job.topic].partitions
    consumer.assign([TopicPartition(job.topic, partition, OFFSET_BEGINNING) for partition in partitions])
    started = time.perf_counter()
    seen = _read(consumer, job, looks=True)
    consumer.close()
    return Outcome(time.perf_counter() - started, seen)
