"""Ottla: a distributed commit log that speaks the Kafka protocol.

`Producer`, `Consumer`, `Admin` and what belongs to them are imported with their first use: a broker must not pay for
clients, nor one client for the others. Types for checkers are in the stub beside this file.
"""

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "BrokerError",
    "ClientError",
    "ConfigError",
    "Consumer",
    "NewTopic",
    "Producer",
    "TopicPartition",
    "__version__",
]

_PLACES = {
    "Admin": "ottla.clients.admin",
    "BrokerError": "ottla.clients.errors",
    "ClientError": "ottla.clients.errors",
    "ConfigError": "ottla.core.config.definition",
    "Consumer": "ottla.clients.consumer.consumer",
    "NewTopic": "ottla.clients.topics",
    "Producer": "ottla.clients.producer.producer",
    "TopicPartition": "ottla.core.types",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(place), name)
    globals()[name] = found
    return found
