"""Many creations or removals of nodes in a few statements: what a multi of the embedded store mostly is.

It runs inside a transaction of its caller. It either does all of it or says that it can't, with nothing to rely on in
between: the caller then takes its changes back and goes the long way, which knows every reason to refuse.
"""

import sqlite3
from collections import Counter
from collections.abc import Sequence

from ottla.coordination.store import (
    ANY_VERSION,
    NO_OWNER,
    VALUE_BYTES_MAX,
    Code,
    Create,
    Delete,
    Result,
    Stat,
    Write,
    parent_of,
)

_PATHS_MAX = 900  # SQLite takes 999 parameters at least


def create_all(
    connection: sqlite3.Connection, creations: Sequence[Create], *, zxid: int, now_ms: int
) -> list[Result] | None:
    """Insert all of these; None when one of them is not plain and simply possible."""
    children: Counter[str] = Counter()
    parents = []
    for path, value, ephemeral, sequential in creations:
        if ephemeral or sequential or len(value) > VALUE_BYTES_MAX:
            return None
        parent = parent_of(path)
        parents.append(parent)
        children[parent] += 1
    created: set[str] = set()
    outside: dict[str, None] = {}
    for creation, parent in zip(creations, parents, strict=True):
        if parent not in created:
            outside[parent] = None
        created.add(creation.path)
    if not created.isdisjoint(outside):
        return None  # a child before its parent
    for parent in outside:
        row = connection.execute("SELECT owner FROM nodes WHERE path = ?", (parent,)).fetchone()
        if row is None or row[0] != NO_OWNER:
            return None
    stat = Stat(0, zxid, zxid, NO_OWNER, now_ms, now_ms, 0)
    inserted = connection.executemany(
        "INSERT OR IGNORE INTO nodes VALUES (?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)",
        [
            (path, parent, value, zxid, zxid, NO_OWNER, now_ms, now_ms, children[path], children[path])
            for (path, value, _, _), parent in zip(creations, parents, strict=True)
        ],
    )
    if inserted.rowcount != len(creations):
        return None  # one of them exists
    connection.executemany(
        "UPDATE nodes SET num_children = num_children + ?, next_sequence = next_sequence + ? WHERE path = ?",
        [(children[parent], children[parent], parent) for parent in outside],
    )
    return [Result(Code.OK, creation.path, stat=stat) for creation in creations]


def delete_all(connection: sqlite3.Connection, deletions: Sequence[Delete]) -> list[Result] | None:
    """Remove all of these; None when one of them is not plain and simply possible."""
    gone: Counter[str] = Counter()  # parent -> children that are removed before it
    paths: set[str] = set()
    expected: list[tuple[str, int]] = []
    for path, version in deletions:
        if version != ANY_VERSION or path == "/" or path in paths:
            return None
        paths.add(path)
        expected.append((path, gone[path]))
        gone[parent_of(path)] += 1
    for start in range(0, len(expected), _PATHS_MAX):
        part = expected[start : start + _PATHS_MAX]
        marks = ",".join("?" * len(part))
        query = f"SELECT path, num_children FROM nodes WHERE path IN ({marks})"
        if dict(connection.execute(query, [path for path, _ in part])) != dict(part):
            return None  # one of them isn't there, or has other children
    connection.executemany("DELETE FROM nodes WHERE path = ?", [(path,) for path, _ in expected])
    connection.executemany(
        "UPDATE nodes SET num_children = num_children - ? WHERE path = ?",
        [(count, parent) for parent, count in gone.items() if parent not in paths],
    )
    return [Result(Code.OK, path) for path, _ in expected]


def write_all(
    connection: sqlite3.Connection, writes: Sequence[Write], *, zxid: int, now_ms: int
) -> list[Result] | None:
    """All creations or all removals at once; None for any other multi."""
    if not writes:
        return None
    creations = [write for write in writes if isinstance(write, Create)]
    if len(creations) == len(writes):
        return create_all(connection, creations, zxid=zxid, now_ms=now_ms)
    deletions = [write for write in writes if isinstance(write, Delete)]
    return delete_all(connection, deletions) if len(deletions) == len(writes) else None
