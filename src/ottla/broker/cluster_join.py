"""A broker's first words with the store: the tree's fixed nodes, the cluster's id, its own registration."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.coordination import paths
from ottla.coordination.node_json import encode_uuid
from ottla.coordination.store import Code, Create, Result, Store
from ottla.core.types import BrokerId


class StoreFailed(Exception):
    """The store said no, or nothing; the message says to what."""


async def ask(loop: asyncio.AbstractEventLoop, operation: Callable[..., None], *arguments: Any, **options: Any) -> Any:
    """Await `operation(*arguments, on_done, **options)`. For the start only, never per request."""
    future: asyncio.Future[Any] = loop.create_future()
    operation(*arguments, future.set_result, **options)
    return await future


class ClusterJoin:
    """Made by the composition root for one start."""

    def __init__(self, loop: asyncio.AbstractEventLoop, store: Store, random_bytes: Callable[[int], bytes]) -> None:
        self._loop = loop
        self._store = store
        self._random_bytes = random_bytes

    async def make_persistent_nodes(self) -> None:
        """Create what is missing of the fixed nodes; one transaction on a new store."""
        nodes = [Create(path, b"") for path in paths.PERSISTENT_PATHS]
        result: Result = await ask(self._loop, self._store.multi, nodes)
        if result.is_ok:
            return
        answers: list[Awaitable[Result]] = [
            ask(self._loop, self._store.create, path, b"") for path in paths.PERSISTENT_PATHS
        ]
        for answer in await asyncio.gather(*answers):
            if answer.code not in (Code.OK, Code.NODE_EXISTS):
                raise _failed("creating", answer)

    async def cluster_id(self) -> str:
        """The cluster's id; the first broker of a cluster makes it."""
        path = paths.CLUSTER_ID
        created = paths.encode_cluster_id(encode_uuid(self._random_bytes(16)))
        while True:
            result: Result = await ask(self._loop, self._store.get, path)
            if result.is_ok:
                return paths.decode_cluster_id(path, result.value)
            if result.code != Code.NO_NODE:
                raise _failed("reading", result)
            result = await ask(self._loop, self._store.create, path, created)
            if result.code not in (Code.OK, Code.NODE_EXISTS):
                raise _failed("creating", result)

    async def register(self, broker_id: BrokerId, registration: paths.BrokerRegistration) -> None:
        """Announce this broker as alive, for as long as its session lives."""
        result: Result = await ask(
            self._loop,
            self._store.create,
            paths.broker_path(broker_id),
            paths.encode_broker(registration),
            ephemeral=True,
        )
        if result.code == Code.NODE_EXISTS:
            raise StoreFailed(f"broker.id {broker_id} is taken by a broker that is alive; give this one another")
        if not result.is_ok:
            raise _failed("registering at", result)


def _failed(what: str, result: Result) -> StoreFailed:
    return StoreFailed(f"{what} {result.path} in the coordination store: {result.code.name} {result.detail}")
