"""Our own blocking clients, record by record and by columns."""

import time
from collections.abc import Callable

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
from ottla import Consumer, Producer, TopicPartition

_TABLE_ROWS = 100_000


def _producer(job: Job) -> Producer:
    producer = Producer(
        bootstrap_servers=job.bootstrap,
        acks="1",
        enable_idempotence=False,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        buffer_memory=BUFFER_BYTES,
    )
    producer.send(job.topic, b"first").result(STALL_SECONDS)
    return producer


def produce(job: Job) -> Outcome:
    values = text_like(job.value_bytes)
    producer = _producer(job)
    send, topic = producer.send, job.topic
    started = time.perf_counter()
    for number in range(job.record_count):
        handle = send(topic, values[number & 0xFF])
    producer.flush()
    seconds = time.perf_counter() - started
    handle.result(0)
    producer.close()
    return Outcome(seconds, job.record_count * job.value_bytes)


def produce_arrow(job: Job) -> Outcome:
    import pyarrow

    values = text_like(job.value_bytes)
    column = pyarrow.array([values[number & 0xFF] for number in range(_TABLE_ROWS)], pyarrow.binary())
    table = pyarrow.table({"value": column})
    producer = _producer(job)
    producer.send_arrow(job.topic, table.slice(0, 1)).result(STALL_SECONDS)
    started = time.perf_counter()
    for at in range(0, job.record_count, _TABLE_ROWS):
        handle = producer.send_arrow(job.topic, table.slice(0, min(_TABLE_ROWS, job.record_count - at)))
    producer.flush()
    seconds = time.perf_counter() - started
    handle.result(0)
    producer.close()
    return Outcome(seconds, job.record_count * job.value_bytes)


def consume(job: Job) -> Outcome:
    consumer = _consumer(job)
    _first(lambda: len(consumer.poll()))
    started = time.perf_counter()
    consumer.assign([TopicPartition(job.topic, WORK_PARTITION)])
    seen_bytes = _read(consumer, job)
    seconds = time.perf_counter() - started
    consumer.close()
    return Outcome(seconds, seen_bytes)


def consume_arrow(job: Job) -> Outcome:
    consumer = _consumer(job)
    _first(lambda: 0 if consumer.poll_arrow() is None else 1)
    started = time.perf_counter()
    consumer.assign([TopicPartition(job.topic, WORK_PARTITION)])
    seen_bytes = _read_arrow(consumer, job)
    seconds = time.perf_counter() - started
    consumer.close()
    return Outcome(seconds, seen_bytes)


def consume_all(job: Job) -> Outcome:
    """All partitions, for the memory that it takes."""
    return _consume_all(job, _read)


def consume_all_arrow(job: Job) -> Outcome:
    return _consume_all(job, _read_arrow)


def _consume_all(job: Job, read: Callable[[Consumer, Job], int]) -> Outcome:
    consumer = Consumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest")
    consumer.assign(consumer.partitions_for(job.topic))
    started = time.perf_counter()
    seen_bytes = read(consumer, job)
    seconds = time.perf_counter() - started
    consumer.close()
    return Outcome(seconds, seen_bytes)


def _read(consumer: Consumer, job: Job) -> int:
    seen = seen_bytes = 0
    last = time.perf_counter()
    while seen < job.record_count:
        records = consumer.poll(500, max_records=POLL_RECORDS)
        for record in records:
            seen_bytes += len(record.value)
        seen += len(records)
        last = _checked_progress(job, seen, len(records), last)
    return seen_bytes


def _read_arrow(consumer: Consumer, job: Job) -> int:
    seen = seen_bytes = 0
    last = time.perf_counter()
    while seen < job.record_count:
        batch = consumer.poll_arrow(500)
        if batch is not None:
            seen += batch.num_rows
            seen_bytes += batch.column(1).buffers()[2].size
        last = _checked_progress(job, seen, 0 if batch is None else batch.num_rows, last)
    return seen_bytes


def _consumer(job: Job) -> Consumer:
    consumer = Consumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS)
    consumer.assign([TopicPartition(job.topic, WARM_UP_PARTITION)])
    return consumer


def _first(poll: Callable[[], int]) -> None:
    deadline = time.perf_counter() + STALL_SECONDS
    while not poll():
        if time.perf_counter() > deadline:
            raise RuntimeError(f"the first record did not come within {STALL_SECONDS} s")


def _checked_progress(job: Job, seen: int, count: int, last: float) -> float:
    now = time.perf_counter()
    if count:
        return now
    if now - last > STALL_SECONDS:
        raise RuntimeError(f"{job.topic}: {seen} of {job.record_count} records, nothing for {STALL_SECONDS} s")
    return last
