"""A multi of creations or removals alone takes a short way; it must end as the long one does."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordination.embedded_file import open_for_writing
from ottla.coordination.embedded_tree import EmbeddedTree
from ottla.coordination.store import ANY_VERSION, Code, Create, Delete, Write

PATHS = [f"/{top}{rest}" for top in "ab" for rest in ("", "/x", "/y", "/x/z")]


def rows(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    return list(connection.execute("SELECT * FROM nodes ORDER BY path"))


def one_by_one(tree: EmbeddedTree, connection: sqlite3.Connection, writes: list[Write]) -> Code:
    """The same without the short way: a write of the same zxid at a time, all taken back when one fails."""
    connection.execute("SAVEPOINT single")
    tree.zxid += 1
    for operation in writes:
        result = tree._apply(operation)
        if not result.is_ok:
            connection.execute("ROLLBACK TO single")
            connection.execute("RELEASE single")
            tree.zxid -= 1
            tree.changes.clear()
            return result.code
    connection.execute("RELEASE single")
    return Code.OK


MULTIS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(PATHS).map(lambda path: Create(path, path.encode())), min_size=1, max_size=6),
        st.lists(st.sampled_from(PATHS).map(lambda path: Delete(path, ANY_VERSION)), min_size=1, max_size=6),
        st.lists(st.builds(Delete, st.sampled_from(PATHS), st.sampled_from([0, 1])), min_size=1, max_size=2),
        st.just([Create("/a", b"", ephemeral=True)]),
        st.just([Create("/a", b"", sequential=True)]),
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(multis=MULTIS)
def test_short_way_ends_as_the_long_one(multis: list[list[Write]]) -> None:
    short = open_for_writing(":memory:")
    long = open_for_writing(":memory:")
    try:
        short_tree, long_tree = EmbeddedTree(short), EmbeddedTree(long)
        short.execute("BEGIN")
        long.execute("BEGIN")
        for writes in multis:
            result = short_tree.multi(tuple(writes))
            assert result.code == one_by_one(long_tree, long, writes)
            assert len(result.results) == len(writes)
            assert rows(short) == rows(long)
            assert short_tree.zxid == long_tree.zxid
            assert sorted(short_tree.changes) == sorted(long_tree.changes)
            short_tree.changes, long_tree.changes = [], []
    finally:
        short.close()
        long.close()
