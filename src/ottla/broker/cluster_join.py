"""What a starting broker writes to the store: the tree's fixed nodes, the cluster's id."""

from collections.abc import Callable

from ottla.broker.steps import ask
from ottla.coordination import paths
from ottla.coordination.node_json import encode_uuid
from ottla.coordination.store import Code, Create, Result, Store


class StoreFailed(Exception):
    """The store refused an operation, or did not answer; the message says which one."""


class ClusterJoin:
    """Made by the broker core for one start."""

    def __init__(self, store: Store, random_bytes: Callable[[int], bytes]) -> None:
        self._store = store
        self._random_bytes = random_bytes

    async def make_persistent_nodes(self) -> None:
        """Create what is missing of the fixed nodes; one transaction on a new store."""
        nodes = [Create(path, b"") for path in paths.PERSISTENT_PATHS]
        result: Result = await ask(self._store.multi, nodes)
        if result.is_ok:
            return
        for answer in [ask(self._store.create, path, b"") for path in paths.PERSISTENT_PATHS]:  # all at once
            result = await answer
            if result.code not in (Code.OK, Code.NODE_EXISTS):
                raise store_failed("creating", result)

    async def cluster_id(self) -> str:
        """The cluster's id; the first broker of a cluster makes it."""
        path = paths.CLUSTER_ID
        created = paths.encode_cluster_id(encode_uuid(self._random_bytes(16)))
        while True:
            result: Result = await ask(self._store.get, path)
            if result.is_ok:
                return paths.decode_cluster_id(path, result.value)
            if result.code != Code.NO_NODE:
                raise store_failed("reading", result)
            result = await ask(self._store.create, path, created)
            if result.code not in (Code.OK, Code.NODE_EXISTS):
                raise store_failed("creating", result)


def store_failed(what: str, result: Result) -> StoreFailed:
    return StoreFailed(f"{what} {result.path} in the coordination store: {result.code.name} {result.detail}")
