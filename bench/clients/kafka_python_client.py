"""kafka-python."""

import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from bench.clients.job import (
    BATCH_BYTES,
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
    producer: Any = KafkaProducer(
        bootstrap_servers=job.bootstrap,
        acks=1,
        enable_idempotence=False,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
    )
    producer.send(job.topic, b"first").get(STALL_SECONDS)
    send, topic = producer.send, job.topic
    started = time.perf_counter()
    for number in range(job.record_count):
        future = send(topic, values[number & 0xFF])
    producer.flush()
    seconds = time.perf_counter() - started
    future.get(1)
    producer.close()
    return Outcome(seconds, job.record_count * job.value_bytes)


def consume(job: Job) -> Outcome:
    consumer: Any = KafkaConsumer(
        bootstrap_servers=job.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS
    )
    consumer.assign([TopicPartition(job.topic, WARM_UP_PARTITION)])
    deadline = time.perf_counter() + STALL_SECONDS
    while not consumer.poll(500):
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{job.topic}: the first record did not come within {STALL_SECONDS} s")
    seen = seen_bytes = 0
    started = last = time.perf_counter()
    consumer.assign([TopicPartition(job.topic, WORK_PARTITION)])
    while seen < job.record_count:
        batches = consumer.poll(500, max_records=POLL_RECORDS)
        for records in batches.values():
            for record in records:
                seen_bytes += len(record.value)
            seen += len(records)
        if batches:
            last = time.perf_counter()
        elif time.perf_counter() - last > STALL_SECONDS:
            raise RuntimeError(
                f"{job.topic}: {seen} of {job.record_count} records consumed, nothing for {STALL_SECONDS} s"
            )
    seconds = time.perf_counter() - started
    consumer.close()
    return Outcome(seconds, seen_bytes)
