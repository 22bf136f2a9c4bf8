"""An app with aiokafka: watches readings and sends an alert for each one that is too high."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def watch(bootstrap_servers: str, *, readings: str, alerts: str, limit: int, stopping: asyncio.Event) -> None:
    """Runs until `stopping`; continues where the group "alerts" stopped."""
    consumer = AIOKafkaConsumer(
        readings,
        bootstrap_servers=bootstrap_servers,
        group_id="alerts",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, client_id="alerts", enable_idempotence=True)
    await producer.start()
    await consumer.start()
    try:
        while not stopping.is_set():
            for messages in (await consumer.getmany(timeout_ms=50)).values():
                for message in messages:
                    if int(message.value) > limit:
                        await producer.send_and_wait(alerts, message.value, key=message.key)
                await consumer.commit()
    finally:
        await consumer.stop()
        await producer.stop()
