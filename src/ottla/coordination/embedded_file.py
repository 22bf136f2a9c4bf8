"""The file of the embedded store: opened by one writer, read by anyone.

It owns the lock, the settings that make a commit durable, and the layout's version.
"""

import fcntl
import os
import sqlite3
from types import TracebackType

from ottla.coordination.embedded_tree import LAYOUT, LAYOUT_VERSION, child_names, find_node
from ottla.coordination.store import Code, Result, StoreOpenError

STORE_FILE_NAME = "coordination.sqlite"


def lock_for_writing(path: str) -> int:
    """Take the file's lock, held until the returned descriptor is closed or the process ends.

    The lock has a file of its own: SQLite's locks on the database would be dropped when any other descriptor on it
    is closed.
    """
    lock_path = f"{path}.lock"
    try:
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreOpenError(f"coordination store {path} cannot be opened: {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise StoreOpenError(
            f"coordination store {path} is in use by process {owner or 'unknown'}; "
            "stop that broker or give this one another data directory"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def open_for_writing(path: str) -> sqlite3.Connection:
    """Open or create the store; the connection may then be handed to the thread that uses it."""
    connection = None
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "PRAGMA fullfsync = 1"
        )  # macOS: to the medium, not to the drive's cache; else without effect
        if _layout_version(connection) == 0:
            connection.executescript(f"BEGIN;{LAYOUT}COMMIT;")
        _require_layout(connection, path)
    except (sqlite3.Error, StoreOpenError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreOpenError):
            raise
        raise StoreOpenError(f"coordination store {path} cannot be opened: {error}") from error
    return connection


class StoreReader:
    """Looks into a store's file, also while a broker writes to it; it never changes the file."""

    def __init__(self, path: str) -> None:
        if not os.path.isfile(path):
            raise StoreOpenError(f"there is no coordination store at {path}; is this a broker's data directory?")
        uri = "file:" + os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        connection = None
        try:
            connection = sqlite3.connect(f"{uri}?{_read_mode(path)}", uri=True, isolation_level=None)
            # One transaction for the reader's whole life: a tree is shown as it was at one moment.
            connection.execute("BEGIN")
            _require_layout(connection, path)
        except (sqlite3.Error, StoreOpenError) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, StoreOpenError):
                raise
            raise StoreOpenError(f"coordination store {path} cannot be read: {error}") from error
        self._connection = connection

    def __enter__(self) -> "StoreReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def read(self, path: str) -> Result:
        """Value, stat and children of a node, or NO_NODE."""
        try:
            node = find_node(self._connection, path)
            if node is None:
                return Result(Code.NO_NODE, path)
            return Result(Code.OK, path, node.value, node.stat, child_names(self._connection, path))
        except sqlite3.Error as error:
            raise StoreOpenError(f"node {path} of the coordination store cannot be read: {error}") from error


def _read_mode(path: str) -> str:
    # SQLite puts two small files beside a store that nobody has open; a reader who may not do that can still read a
    # store that was closed cleanly, as a file that doesn't change.
    may_write = os.access(os.path.dirname(os.path.abspath(path)), os.W_OK)
    return "mode=ro" if may_write or os.path.exists(f"{path}-wal") else "immutable=1"


def _layout_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _require_layout(connection: sqlite3.Connection, path: str) -> None:
    version = _layout_version(connection)
    if version != LAYOUT_VERSION:
        raise StoreOpenError(
            f"coordination store {path} has layout {version}, expected {LAYOUT_VERSION}; "
            "it is not a store of this version of Ottla"
        )
