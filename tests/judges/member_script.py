"""A consumer of a group as a process of its own, by one of three clients; what happens to it goes to stdout.

One JSON object a line, with the time of the machine's monotonic clock. SIGTERM makes it leave; SIGKILL is the tests'.
Offsets are committed after each batch that was reported, unless told otherwise, and what is acknowledged is reported
too.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any

STOPPED: list[int] = []
POLL_S = 0.05


def report(event: str, **fields: Any) -> None:
    line = json.dumps({"event": event, "at_s": time.monotonic(), **fields}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def numbers(partitions: Iterable[Any]) -> list[int]:
    return sorted(partition.partition for partition in partitions)


def run_confluent(address: str, group_id: str, topic: str, options: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, KafkaException

    def on_assign(_: Any, partitions: list[Any]) -> None:
        report("assigned", partitions=numbers(partitions), is_cooperative=is_cooperative)

    def on_revoke(_: Any, partitions: list[Any]) -> None:
        report("revoked", partitions=numbers(partitions))

    is_cooperative = options["assignor"] == "cooperative-sticky"
    settings = {
        "bootstrap.servers": address,
        "group.id": group_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 200,
        "session.timeout.ms": options["session_timeout_ms"],
        "max.poll.interval.ms": max(options["session_timeout_ms"], 20_000),
        "partition.assignment.strategy": options["assignor"],
        "reconnect.backoff.max.ms": 200,
        "fetch.wait.max.ms": 50,
    }
    if options["instance_id"]:
        settings["group.instance.id"] = options["instance_id"]
    consumer = Consumer(settings)
    consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_revoke)
    report("started")
    while not STOPPED:
        messages = [message for message in consumer.consume(100, POLL_S) if message.error() is None]
        if not messages:
            continue
        report("records", records=[(message.partition(), message.offset()) for message in messages])
        if not options["commits"]:
            continue
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException as error:
            report("refused", error=str(error))
        else:
            report("committed", offsets=[(entry.partition, entry.offset) for entry in done if entry.error is None])
    report("leaving")
    consumer.close()


def run_kafka_python(address: str, group_id: str, topic: str, options: dict[str, Any]) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    is_cooperative = options["assignor"] == "cooperative-sticky"

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            generation = consumer._coordinator._generation.generation_id
            report("assigned", partitions=numbers(assigned), generation=generation, is_cooperative=is_cooperative)

        def on_partitions_revoked(self, revoked: Any) -> None:
            report("revoked", partitions=numbers(revoked))

    consumer = KafkaConsumer(
        bootstrap_servers=address,
        group_id=group_id,
        group_instance_id=options["instance_id"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
        heartbeat_interval_ms=200,
        session_timeout_ms=options["session_timeout_ms"],
        max_poll_interval_ms=max(options["session_timeout_ms"], 20_000),
        partition_assignment_strategy=(CooperativeStickyAssignor if is_cooperative else RangePartitionAssignor,),
        retry_backoff_ms=50,
        reconnect_backoff_max_ms=200,
    )
    consumer.subscribe([topic], listener=Listener())
    report("started")
    while not STOPPED:
        # Not POLL_S: a poll that ends while the consumer joins loses its assignment for good (kafka-python 3.0.12).
        try:
            polled = consumer.poll(timeout_ms=1000)
        except (KafkaError, OSError):
            continue  # the broker is away; poll says so, and goes on when it is called again
        records = [(record.partition, record.offset) for batch in polled.values() for record in batch]
        if not records:
            continue
        report("records", records=records)
        if not options["commits"]:
            continue
        try:
            consumer.commit(timeout_ms=10_000)
        except KafkaError as error:
            report("refused", error=repr(error))
        else:
            report("committed", offsets=sorted({partition: offset + 1 for partition, offset in records}.items()))
    report("leaving")
    consumer.close()


async def run_aiokafka(address: str, group_id: str, topic: str, options: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaConnectionError, KafkaError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            generation = consumer._coordinator.generation
            report("assigned", partitions=numbers(assigned), generation=generation, is_cooperative=False)

        def on_partitions_revoked(self, revoked: Any) -> None:
            report("revoked", partitions=numbers(revoked))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=address,
        group_id=group_id,
        group_instance_id=options["instance_id"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
        heartbeat_interval_ms=200,
        session_timeout_ms=options["session_timeout_ms"],
        partition_assignment_strategy=(RangePartitionAssignor,),
        retry_backoff_ms=50,
    )
    consumer.subscribe([topic], listener=Listener())
    while True:
        try:
            await consumer.start()
            break
        except KafkaConnectionError:
            await asyncio.sleep(POLL_S)  # this client gives up at once where no broker answers; an app tries again
    report("started")
    while not STOPPED:
        polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        records = [(record.partition, record.offset) for batch in polled.values() for record in batch]
        if not records:
            continue
        report("records", records=records)
        if not options["commits"]:
            continue
        try:
            await consumer.commit()
        except KafkaError as error:
            report("refused", error=repr(error))
        else:
            report("committed", offsets=sorted({partition: offset + 1 for partition, offset in records}.items()))
    report("leaving")
    await consumer.stop()


def main() -> None:
    client, address, group_id, topic, options_json = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: STOPPED.append(1))
    options = json.loads(options_json)
    if client == "confluent":
        run_confluent(address, group_id, topic, options)
    elif client == "kafka-python":
        run_kafka_python(address, group_id, topic, options)
    else:
        asyncio.run(run_aiokafka(address, group_id, topic, options))
    report("left")


if __name__ == "__main__":
    main()
