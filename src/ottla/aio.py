"""The asyncio face: `from ottla.aio import Producer, Consumer, Admin`, each with the names of its blocking twin."""

from ottla.clients.aio_admin import Admin
from ottla.clients.consumer.aio import Consumer
from ottla.clients.producer.aio import Producer

__all__ = ["Admin", "Consumer", "Producer"]
