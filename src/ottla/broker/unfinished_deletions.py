"""Topics whose deletion a crash cut off: noted in the store, and finished by the next start."""

import logging

from ottla.broker.steps import ask
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Store

_LOG = logging.getLogger("ottla.topics")


async def finish_deletions(store: Store, topics: Topics) -> None:
    noted = await ask(store.children, paths.DELETE_TOPICS)
    for name in noted.children:
        if name in topics.state.topics:
            fault = await ask(topics.finish_deletion, name)
            _LOG.info("topic %s: its deletion is finished%s", name, f" ({fault.message})" if fault else "")
        else:
            # A note that outlived its topic would take the next topic of that name away at the next start.
            await ask(store.delete, paths.delete_topic_path(name), version=ANY_VERSION)
