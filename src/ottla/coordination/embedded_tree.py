"""The tables of the embedded store: what each operation does to the nodes in SQLite.

It runs inside a transaction of its caller and on its caller's thread; it knows no queue, no watch and no callback.
Every operation checks first and writes then, so one that is refused has changed nothing.
"""

import sqlite3
from typing import NamedTuple

from ottla.coordination.embedded_batches import write_all
from ottla.coordination.store import (
    ANY_VERSION,
    NO_OWNER,
    VALUE_BYTES_MAX,
    Check,
    Code,
    Create,
    Result,
    SetValue,
    Stat,
    WatchEvent,
    WatchKind,
    Write,
    parent_of,
)

LAYOUT_VERSION = 1

# parent is '' for the root only. next_sequence counts the children ever created, as ZooKeeper's does: a name that was
# given out is never given again, also after its node is gone. Few nodes have an owner, hence the partial index.
LAYOUT = f"""
CREATE TABLE nodes (
    path TEXT PRIMARY KEY, parent TEXT NOT NULL, value BLOB NOT NULL, version INTEGER NOT NULL,
    czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, owner INTEGER NOT NULL,
    ctime_ms INTEGER NOT NULL, mtime_ms INTEGER NOT NULL,
    num_children INTEGER NOT NULL, next_sequence INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX nodes_by_parent ON nodes (parent);
CREATE INDEX nodes_by_owner ON nodes (owner) WHERE owner != {NO_OWNER};
CREATE TABLE sessions (id INTEGER PRIMARY KEY, started_ms INTEGER NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('zxid', 0), ('session', 0);
INSERT INTO nodes VALUES ('/', '', x'', 0, 0, 0, {NO_OWNER}, 0, 0, 0, 0);
PRAGMA user_version = {LAYOUT_VERSION};
"""

_COLUMNS = "value, version, czxid, mzxid, owner, ctime_ms, mtime_ms, num_children, next_sequence"


class Node(NamedTuple):
    """A row of the table."""

    value: bytes
    stat: Stat
    next_sequence: int


def find_node(connection: sqlite3.Connection, path: str) -> Node | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM nodes WHERE path = ?", (path,)).fetchone()
    return None if row is None else Node(row[0], Stat._make(row[1:8]), row[8])


def child_names(connection: sqlite3.Connection, path: str) -> tuple[str, ...]:
    rows = connection.execute("SELECT path FROM nodes WHERE parent = ? ORDER BY path", (path,))
    start = len(path) + 1 if path != "/" else 1
    return tuple([row[0][start:] for row in rows])


class EmbeddedTree:
    """The nodes and counters of one open file. `changes` collects what watches may be waiting for."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.changes: list[WatchEvent] = []
        self.zxid = 0
        self.session_id = 0
        self.now_ms = 0
        self.load_counters()

    def load_counters(self) -> None:
        """Read the counters as they are on disk; also after a rollback."""
        counters = dict(self._connection.execute("SELECT name, value FROM counters"))
        self.zxid = counters["zxid"]
        self.session_id = counters["session"]

    def save_zxid(self) -> None:
        """Once in each transaction that wrote."""
        self._connection.execute("UPDATE counters SET value = ? WHERE name = 'zxid'", (self.zxid,))

    def begin_session(self) -> int:
        """Start a session; those before it end, with their ephemerals: one process is one client."""
        self.end_sessions()
        self.session_id += 1
        execute = self._connection.execute
        execute("UPDATE counters SET value = ? WHERE name = 'session'", (self.session_id,))
        execute("INSERT INTO sessions VALUES (?, ?)", (self.session_id, self.now_ms))
        return self.session_id

    def end_sessions(self) -> None:
        """Remove all sessions and every ephemeral."""
        # "owner != 0" as text: a bound parameter would keep SQLite from using the partial index.
        query = f"SELECT path FROM nodes WHERE owner != {NO_OWNER} ORDER BY path"
        paths = [row[0] for row in self._connection.execute(query)]
        if paths:
            self.zxid += 1
        for path in paths:
            self._remove(path)
        self._connection.execute("DELETE FROM sessions")

    def get(self, path: str) -> Result:
        node = find_node(self._connection, path)
        return Result(Code.NO_NODE, path) if node is None else Result(Code.OK, path, node.value, node.stat)

    def exists(self, path: str) -> Result:
        node = find_node(self._connection, path)
        return Result(Code.NO_NODE, path) if node is None else Result(Code.OK, path, stat=node.stat)

    def children(self, path: str) -> Result:
        node = find_node(self._connection, path)
        if node is None:
            return Result(Code.NO_NODE, path)
        return Result(Code.OK, path, stat=node.stat, children=child_names(self._connection, path))

    def write(self, operation: Write) -> Result:
        """One write with a zxid of its own."""
        self.zxid += 1
        result = self._apply(operation)
        if not result.is_ok:
            self.zxid -= 1
        return result

    def multi(self, writes: tuple[Write, ...]) -> Result:
        """All of them under one zxid, or none."""
        connection = self._connection
        changes_before = len(self.changes)
        connection.execute("SAVEPOINT multi")
        self.zxid += 1
        at_once = self._write_at_once(writes)
        if at_once is not None:
            connection.execute("RELEASE multi")
            return Result(Code.OK, "", results=tuple(at_once))
        connection.execute("ROLLBACK TO multi")
        results: list[Result] = []
        for index, operation in enumerate(writes):
            result = self._apply(operation)
            if not result.is_ok:
                connection.execute("ROLLBACK TO multi")
                connection.execute("RELEASE multi")
                self.zxid -= 1
                del self.changes[changes_before:]
                undone = [Result(Code.ROLLED_BACK, other.path) for other in writes]
                undone[index] = result
                return Result(result.code, result.path, results=tuple(undone))
            results.append(result)
        connection.execute("RELEASE multi")
        return Result(Code.OK, "", results=tuple(results))

    def _write_at_once(self, writes: tuple[Write, ...]) -> list[Result] | None:
        """In a few statements, if it is a controller's check with nothing but creations or nothing but removals."""
        checked: list[Result] = []
        if writes and isinstance(writes[0], Check):
            checked.append(self._apply(writes[0]))
            if not checked[0].is_ok:
                return None
            writes = writes[1:]
        written = write_all(self._connection, writes, zxid=self.zxid, now_ms=self.now_ms)
        if written is None:
            return None
        kind = WatchKind.CREATED if isinstance(writes[0], Create) else WatchKind.DELETED
        self.changes += [WatchEvent(kind, operation.path) for operation in writes]
        return checked + written

    def _apply(self, operation: Write) -> Result:
        if isinstance(operation, Create):
            return self._create(operation)
        if isinstance(operation, SetValue):
            return self._set(operation)
        path = operation.path
        node = find_node(self._connection, path)
        if node is None:
            return Result(Code.NO_NODE, path)
        if operation.version not in (ANY_VERSION, node.stat.version):
            return Result(Code.BAD_VERSION, path, stat=node.stat)
        if isinstance(operation, Check):
            return Result(Code.OK, path, stat=node.stat)
        if node.stat.num_children or path == "/":
            return Result(Code.NOT_EMPTY, path, stat=node.stat)
        self._remove(path)
        return Result(Code.OK, path)

    def _create(self, operation: Create) -> Result:
        path, value, ephemeral, sequential = operation
        if len(value) > VALUE_BYTES_MAX:
            return Result(Code.TOO_LARGE, path)
        parent_path = parent_of(path)
        parent = find_node(self._connection, parent_path)
        if parent is None:
            return Result(Code.NO_NODE, path)
        if parent.stat.ephemeral_owner != NO_OWNER:
            return Result(Code.NO_CHILDREN_FOR_EPHEMERALS, path)
        if sequential:
            path = f"{path}{parent.next_sequence:010d}"
        if path == "/" or find_node(self._connection, path) is not None:
            return Result(Code.NODE_EXISTS, path)
        owner = self.session_id if ephemeral else NO_OWNER
        stat = Stat(0, self.zxid, self.zxid, owner, self.now_ms, self.now_ms, 0)
        execute = self._connection.execute
        execute("INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)", (path, parent_path, value, *stat))
        execute(
            "UPDATE nodes SET num_children = num_children + 1, next_sequence = next_sequence + 1 WHERE path = ?",
            (parent_path,),
        )
        self.changes.append(WatchEvent(WatchKind.CREATED, path))
        return Result(Code.OK, path, stat=stat)

    def _set(self, operation: SetValue) -> Result:
        path, value, version = operation
        if len(value) > VALUE_BYTES_MAX:
            return Result(Code.TOO_LARGE, path)
        node = find_node(self._connection, path)
        if node is None:
            return Result(Code.NO_NODE, path)
        stat = node.stat
        if version not in (ANY_VERSION, stat.version):
            return Result(Code.BAD_VERSION, path, stat=stat)
        stat = stat._replace(version=stat.version + 1, mzxid=self.zxid, mtime_ms=self.now_ms)
        self._connection.execute(
            "UPDATE nodes SET value = ?, version = ?, mzxid = ?, mtime_ms = ? WHERE path = ?",
            (value, stat.version, stat.mzxid, stat.mtime_ms, path),
        )
        self.changes.append(WatchEvent(WatchKind.CHANGED, path))
        return Result(Code.OK, path, stat=stat)

    def _remove(self, path: str) -> None:
        execute = self._connection.execute
        execute("DELETE FROM nodes WHERE path = ?", (path,))
        execute("UPDATE nodes SET num_children = num_children - 1 WHERE path = ?", (parent_of(path),))
        self.changes.append(WatchEvent(WatchKind.DELETED, path))
