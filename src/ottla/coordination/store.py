"""The port of the coordination store: versioned nodes in a tree, ephemerals, sequential nodes, watches, multi.

It answers by callback and knows the hard engine's failures, so that its users are written once for both engines:
`embedded.py` (SQLite, one machine) and a ZooKeeper ensemble. A failure is a `Result`, never an exception.

What every engine promises:
- Operations are carried out in the order they were called, and their callbacks come in that order.
- No callback, watch or listener runs inside the call that caused it; each is posted to the loop on its own.
- A watch fires once, for the first change after the read that set it, and dies in silence with its session. Whether
  it comes before or after the callback of one's own change is left open.
- CONNECTION_LOST means that a write was perhaps applied: read, then decide.
- An operation called before the listener heard CONNECTED for a new session ends as SESSION_EXPIRED: nothing that was
  meant for the old session is done in the new one.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

ANY_VERSION = -1
NO_OWNER = 0
VALUE_BYTES_MAX = 1_048_576 - 1_024  # ZooKeeper's jute.maxbuffer, with room for the path around the value


class StoreOpenError(Exception):
    """The store cannot be opened; the message says which and what to do."""


class Code(IntEnum):
    """How an operation ended."""

    OK = 0
    BAD_VERSION = 1
    NO_NODE = 2
    NODE_EXISTS = 3
    NOT_EMPTY = 4
    NO_CHILDREN_FOR_EPHEMERALS = 5
    TOO_LARGE = 6
    ROLLED_BACK = 7  # an operation of a multi that failed because of another one
    CONNECTION_LOST = 8
    SESSION_EXPIRED = 9


class Stat(NamedTuple):
    """What is known about a node besides its value."""

    version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int
    ctime_ms: int
    mtime_ms: int
    num_children: int


class Result(NamedTuple):
    """The end of one operation; only what the operation gives is filled in."""

    code: Code
    path: str
    value: bytes = b""
    stat: Stat | None = None
    children: tuple[str, ...] = ()  # names, sorted
    results: "tuple[Result, ...]" = ()  # of a multi, one for each operation
    detail: str = ""  # for people: why the connection was lost

    @property
    def is_ok(self) -> bool:
        return self.code == Code.OK


class WatchKind(IntEnum):
    """What happened to a watched node."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchEvent(NamedTuple):
    """A watch that fired; what there is now must be read."""

    kind: WatchKind
    path: str


class SessionState(IntEnum):
    """What a session listener is called with."""

    CONNECTED = 1
    SUSPENDED = 2  # operations end as CONNECTION_LOST for now; the session may still live
    EXPIRED = 3  # ephemerals and watches are gone; CONNECTED follows for a new session


class Create(NamedTuple):
    """Part of a multi: a new node; the parent must exist."""

    path: str
    value: bytes
    ephemeral: bool = False
    sequential: bool = False


class SetValue(NamedTuple):
    """Part of a multi: a new value for a node at this version."""

    path: str
    value: bytes
    version: int


class Delete(NamedTuple):
    """Part of a multi: remove a node without children at this version."""

    path: str
    version: int


class Check(NamedTuple):
    """Part of a multi: go on only if the node has this version."""

    path: str
    version: int


Write: TypeAlias = Create | SetValue | Delete | Check
OnDone: TypeAlias = Callable[[Result], None]
Watch: TypeAlias = Callable[[WatchEvent], None]
SessionListener: TypeAlias = Callable[[SessionState], None]
Post: TypeAlias = Callable[[Callable[[], None]], None]  # run this on the loop's thread; callable from any thread


class Store(Protocol):
    """One client of the coordination store, used from the loop's thread. A malformed path is a bug: ValueError."""

    @property
    def session_id(self) -> int:
        """The owner that ephemerals created now will have."""
        ...

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call `listener` with every later change; CONNECTED of the first session comes when the store is opened."""
        ...

    def create(
        self, path: str, value: bytes, on_done: OnDone, *, ephemeral: bool = False, sequential: bool = False
    ) -> None:
        """`sequential` adds ten digits that grow with each child of the parent; the result's path has them."""
        ...

    def get(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        """Value and stat. The watch fires on a change or removal; without the node none is set."""
        ...

    def set(self, path: str, value: bytes, on_done: OnDone, *, version: int) -> None:
        """Replace the value if the node has `version` (ANY_VERSION: whatever it has)."""
        ...

    def delete(self, path: str, on_done: OnDone, *, version: int) -> None: ...

    def exists(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        """The stat, or NO_NODE. The watch is set in both cases and fires on creation, change or removal."""
        ...

    def children(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        """Names of the children. The watch fires when one comes or goes, or the node itself is removed."""
        ...

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        """All of it or nothing; on failure the code is that of the write at fault, its own result has it too."""
        ...

    def close(self) -> None:
        """End the session, so its ephemerals go at once; operations called later end as SESSION_EXPIRED."""
        ...


def check_path(path: str) -> None:
    """Raise ValueError unless `path` can name a node: absolute, no empty, `.` or `..` part, printable."""
    # Nearly every path passes here, and a topic has many: the rest says what is wrong with the others.
    if path[:1] == "/" and path[-1] != "/" and "//" not in path and "/." not in path and path.isprintable():
        return
    if path == "/":
        return
    if not path.startswith("/") or not path.isprintable():
        raise ValueError(f"node path {path!r} is malformed: it must begin with / and be printable")
    for part in path[1:].split("/"):
        if part in ("", ".", ".."):
            raise ValueError(f"node path {path!r} is malformed: a part of it is empty, . or ..")


def check_write(operation: Write) -> None:
    """Raise ValueError unless the path is well-formed and the value is bytes."""
    check_path(operation.path)
    # A value of another type would be stored as text or number and break the next reader.
    if not isinstance(operation, (Delete, Check)) and not isinstance(operation.value, bytes):
        raise ValueError(f"the value of node {operation.path} must be bytes, got {type(operation.value).__name__}")


def parent_of(path: str) -> str:
    """The path above; that of the root is the root."""
    return path.rpartition("/")[0] or "/"
