from ottla.clients.admin import Admin as Admin
from ottla.clients.consumer.consumer import Consumer as Consumer
from ottla.clients.errors import BrokerError as BrokerError
from ottla.clients.errors import ClientError as ClientError
from ottla.clients.producer.producer import Producer as Producer
from ottla.clients.topics import NewTopic as NewTopic
from ottla.core.config.definition import ConfigError as ConfigError
from ottla.core.types import TopicPartition as TopicPartition

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

__version__: str
