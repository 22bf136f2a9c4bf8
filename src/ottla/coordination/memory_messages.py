"""What a client and the ensemble in memory say to each other."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.coordination.memory_tree import MemoryTree
from ottla.coordination.store import Code, OnDone, Result, Watch, WatchEvent


class Operation(NamedTuple):
    """One operation; the client keeps the callback and the watch, the ensemble notes that there is one."""

    path: str
    action: Callable[[MemoryTree], Result]
    on_done: OnDone
    is_write: bool = False
    watch: Watch | None = None
    watches_children: bool = False
    watches_absence: bool = False

    def sets_watch(self, result: Result) -> bool:
        return self.watch is not None and (result.is_ok or (self.watches_absence and result.code == Code.NO_NODE))


class SeenWatches(NamedTuple):
    """The watches of a client that connects anew, each path with the zxid of what it has seen there, or NO_ZXID.

    The ensemble compares them with its tree, so that no change in between is missed (ZooKeeper's SetWatches).
    """

    nodes: dict[str, int]
    children: dict[str, int]


class ClientSide(Protocol):
    """What the ensemble sends; each runs in the client's process."""

    def on_attached(self, session_id: int) -> None:
        """The connection was taken on, for this session."""
        ...

    def on_expired(self) -> None:
        """The session that the client asked for is over."""
        ...

    def on_answer(self, result: Result, seen_zxid: int) -> None:
        """The end of the oldest operation that is open; `seen_zxid` is that of what a watch was set on."""
        ...

    def on_watch(self, event: WatchEvent) -> None: ...

    def on_pong(self) -> None: ...

    def on_closed(self) -> None:
        """The session was ended as the client wished."""
        ...
