"""What the store says about configs at a start: the broker's dynamic entries, and which stored entries can't be used.

An entry that can't be used must not keep a broker down: it is named in the log, and the default holds instead.
"""

import logging
from collections.abc import Iterable

from ottla.broker.cluster_join import StoreFailed
from ottla.broker.steps import ask
from ottla.controller.state import StoredBrokerConfigs
from ottla.coordination import paths
from ottla.coordination.store import Code, Result, Store
from ottla.core.cluster import TopicImage
from ottla.core.config.config import BrokerConfig, TopicConfig
from ottla.core.types import BrokerId

_LOG = logging.getLogger("ottla.configs")


async def read_broker_configs(store: Store, broker_id: BrokerId) -> StoredBrokerConfigs:
    """The entries for this broker and for all of them; none where nothing was ever set."""
    entries = []
    for name in (str(broker_id), paths.DEFAULT_ENTITY):
        path = paths.config_path("brokers", name)
        result: Result = await ask(store.get, path)
        if not result.is_ok and result.code != Code.NO_NODE:
            raise StoreFailed(f"reading {path} from the coordination store: {result.code.name} {result.detail}")
        entries.append(paths.decode_config(path, result.value))
    return StoredBrokerConfigs(per_broker=entries[0], cluster_wide=entries[1])


def with_stored(config: BrokerConfig, stored: StoredBrokerConfigs) -> BrokerConfig:
    """The broker's config with its dynamic entries; those that can't be used are logged and left out."""
    merged, problems = config.with_dynamic(per_broker=stored.per_broker, cluster_wide=stored.cluster_wide)
    for problem in problems:
        _LOG.error("a dynamic broker config in the store can't be used; delete it or set it again: %s", problem)
    return merged


def log_unusable_topic_configs(images: Iterable[TopicImage], config: BrokerConfig) -> None:
    """Name each topic with an entry that can't be used; the broker's value holds for it."""
    for image in images:
        if not image.configs:
            continue
        for problem in TopicConfig.of_stored(image.configs, config)[1]:
            _LOG.error(
                "topic %s: a config in the store can't be used, so the broker's value holds; set it again: %s",
                image.name,
                problem,
            )
