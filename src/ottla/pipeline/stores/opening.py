"""`open_store`: the store that a command asks for, by its kind and address."""

from pathlib import Path
from typing import Final

from ottla.core.extras import needs_extra
from ottla.pipeline.stores.port import Store

KINDS: Final = ("embedded", "cassandra")


def open_store(kind: str, *, path: str | Path | None = None, cassandra: str | None = None) -> Store:
    """`path` is the embedded store's folder, `cassandra` is HOST:PORT/KEYSPACE. `initialise` creates the tables."""
    if kind == "embedded":
        if path is None:
            raise ValueError("the embedded store needs a folder: --store-path DIR")
        from ottla.pipeline.stores.embedded.store import EmbeddedStore

        return EmbeddedStore(Path(path))
    if kind == "cassandra":
        if cassandra is None:
            raise ValueError("Cassandra needs an address: --cassandra HOST:PORT/KEYSPACE")
        with needs_extra("a store in Cassandra", "pipeline", "cassandra"):
            from ottla.pipeline.stores.cassandra.store import open_cassandra

        return open_cassandra(cassandra)
    raise ValueError(f"there is no store {kind!r}; there are {' and '.join(KINDS)}")
