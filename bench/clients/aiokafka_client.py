"""aiokafka, with its C extension where it has one."""

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

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
    return asyncio.run(_produce(job))


async def _produce(job: Job) -> Outcome:
    values = text_like(job.value_bytes)
    producer: Any = AIOKafkaProducer(
        bootstrap_servers=job.bootstrap, acks=1, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES
    )
    await producer.start()
    await producer.send_and_wait(job.topic, b"first")
    send, topic = producer.send, job.topic
    started = time.perf_counter()
    for number in range(job.record_count):
        future = await send(topic, values[number & 0xFF])
    await producer.flush()
    seconds = time.perf_counter() - started
    await future
    await producer.stop()
    return Outcome(seconds, job.record_count * job.value_bytes)


def consume(job: Job) -> Outcome:
    return asyncio.run(_consume(job))


async def _consume(job: Job) -> Outcome:
    consumer: Any = AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS
    )
    await consumer.start()
    consumer.assign([TopicPartition(job.topic, WARM_UP_PARTITION)])
    await asyncio.wait_for(consumer.getone(), STALL_SECONDS)
    seen = seen_bytes = 0
    started = last = time.perf_counter()
    consumer.assign([TopicPartition(job.topic, WORK_PARTITION)])
    while seen < job.record_count:
        batches = await consumer.getmany(timeout_ms=500, max_records=POLL_RECORDS)
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
    await consumer.stop()
    return Outcome(seconds, seen_bytes)
