"""Topics whose deletion a crash cut off: noted in the store, and finished by the next start."""

import asyncio
import logging

from ottla.broker.cluster_join import ask
from ottla.controller.topics import Topics
from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Store

_LOG = logging.getLogger("ottla.topics")


async def finish_deletions(loop: asyncio.AbstractEventLoop, store: Store, topics: Topics) -> None:
    noted = await ask(loop, store.children, paths.DELETE_TOPICS)
    for name in noted.children:
        image = topics.images.get(name)
        if image is not None:
            fault = await ask(loop, topics.finish_deletion, image)
            _LOG.info("topic %s: its deletion is finished%s", name, f" ({fault.message})" if fault else "")
        else:
            # A note that outlived its topic would take the next topic of that name away at the next start.
            await ask(loop, store.delete, paths.delete_topic_path(name), version=ANY_VERSION)
