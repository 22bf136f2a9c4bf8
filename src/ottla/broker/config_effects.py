"""Applies the keys that can change while the broker runs: the only place where a new config takes effect.

A key that is declared dynamic is in one of these groups; a test compares them with the declarations.
"""

from collections.abc import Callable

from ottla.broker.local_topics import LocalTopics
from ottla.broker.log_settings import network_limits_of
from ottla.core.config.config import BrokerConfig
from ottla.core.config.topic_keys import TOPIC_DEFINITION
from ottla.net.limits import NetworkLimits
from ottla.storage.log_manager import LogManager

# The defaults of all topics: `LocalTopics`.
TOPIC_DEFAULTS = frozenset(key.synonyms[0].name for key in TOPIC_DEFINITION.keys.values())
CONNECTION_LIMITS = frozenset(
    {
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
    }
)
THREADS = "background.threads"
PRODUCER_EXPIRATION = "producer.id.expiration.ms"
# Read when the logs are loaded, so a change takes effect at the next start.
AT_NEXT_START = frozenset({"num.recovery.threads.per.data.dir"})


class ConfigEffects:
    """Listens to the broker's `CurrentConfig`; event loop only."""

    def __init__(
        self,
        local_topics: LocalTopics,
        log_manager: LogManager,
        *,
        resize_threads: Callable[[int], None],
        update_connection_limits: Callable[[NetworkLimits], None],
    ) -> None:
        self._local_topics = local_topics
        self._log_manager = log_manager
        self._resize_threads = resize_threads
        self._update_connection_limits = update_connection_limits

    def apply(self, config: BrokerConfig) -> None:
        """Applying a config twice does no more than applying it once."""
        self._local_topics.use_config(config)
        self._log_manager.set_producer_expiration_ms(config.get_int(PRODUCER_EXPIRATION))
        self._resize_threads(config.get_int(THREADS))
        self._update_connection_limits(network_limits_of(config))
