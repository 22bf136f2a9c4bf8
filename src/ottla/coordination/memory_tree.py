"""The nodes of the engine in memory: what each operation does to them.

It knows no session's life, no watch and no callback. Every operation checks first and writes then, so one that is
refused has changed nothing; a multi takes back what it did before the write at fault.
"""

from collections.abc import Callable, Sequence

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
from ottla.core.types import TimestampMs

NO_ZXID = -1


class _Node:
    """`pzxid` is that of the last child that came or went; `next_sequence` counts the children ever created."""

    __slots__ = (
        "children",
        "ctime_ms",
        "czxid",
        "mtime_ms",
        "mzxid",
        "next_sequence",
        "owner",
        "pzxid",
        "value",
        "version",
    )

    def __init__(self, value: bytes, *, zxid: int, owner: int, now_ms: TimestampMs) -> None:
        self.value = value
        self.version = 0
        self.czxid = self.mzxid = self.pzxid = zxid
        self.owner = owner
        self.ctime_ms = self.mtime_ms = now_ms
        self.children: dict[str, None] = {}
        self.next_sequence = 0

    def stat(self) -> Stat:
        return Stat(self.version, self.czxid, self.mzxid, self.owner, self.ctime_ms, self.mtime_ms, len(self.children))


class MemoryTree:
    """The nodes of one ensemble. `changes` collects what watches may be waiting for.

    Its owner sets `session_id`, the owner of ephemerals, and `now_ms` before each operation.
    """

    def __init__(self) -> None:
        self._nodes = {"/": _Node(b"", zxid=0, owner=NO_OWNER, now_ms=0)}
        self._owned: dict[int, dict[str, None]] = {}  # ephemerals by session
        self._undo: list[Callable[[], None]] = []  # of the multi that is being carried out
        self.changes: list[WatchEvent] = []
        self.zxid = 0
        self.session_id = NO_OWNER
        self.now_ms: TimestampMs = 0

    def get(self, path: str) -> Result:
        node = self._nodes.get(path)
        return Result(Code.NO_NODE, path) if node is None else Result(Code.OK, path, node.value, node.stat())

    def exists(self, path: str) -> Result:
        node = self._nodes.get(path)
        return Result(Code.NO_NODE, path) if node is None else Result(Code.OK, path, stat=node.stat())

    def children(self, path: str) -> Result:
        node = self._nodes.get(path)
        if node is None:
            return Result(Code.NO_NODE, path)
        return Result(Code.OK, path, stat=node.stat(), children=tuple(sorted(node.children)))

    def mzxid(self, path: str) -> int:
        """When the node was last written; NO_ZXID if it is not there."""
        node = self._nodes.get(path)
        return NO_ZXID if node is None else node.mzxid

    def pzxid(self, path: str) -> int:
        """When the last child of the node came or went; NO_ZXID if the node is not there."""
        node = self._nodes.get(path)
        return NO_ZXID if node is None else node.pzxid

    def write(self, operation: Write) -> Result:
        """One write with a zxid of its own."""
        self.zxid += 1
        result = self._apply(operation)
        if not result.is_ok:
            self.zxid -= 1
        self._undo.clear()
        return result

    def multi(self, writes: Sequence[Write]) -> Result:
        """All of them under one zxid, or none."""
        changes_before = len(self.changes)
        self.zxid += 1
        results: list[Result] = []
        for index, operation in enumerate(writes):
            result = self._apply(operation)
            if not result.is_ok:
                while self._undo:
                    self._undo.pop()()
                self.zxid -= 1
                del self.changes[changes_before:]
                undone = [Result(Code.ROLLED_BACK, other.path) for other in writes]
                undone[index] = result
                return Result(result.code, result.path, results=tuple(undone))
            results.append(result)
        self._undo.clear()
        return Result(Code.OK, "", results=tuple(results))

    def end_session(self, session_id: int) -> None:
        """Remove the ephemerals of a session under one zxid."""
        paths = sorted(self._owned.get(session_id, ()))
        if paths:
            self.zxid += 1
        for path in paths:
            self._remove(path)
        self._undo.clear()

    def _apply(self, operation: Write) -> Result:
        if isinstance(operation, Create):
            return self._create(operation)
        if isinstance(operation, SetValue):
            return self._set(operation)
        path = operation.path
        node = self._nodes.get(path)
        if node is None:
            return Result(Code.NO_NODE, path)
        if operation.version not in (ANY_VERSION, node.version):
            return Result(Code.BAD_VERSION, path, stat=node.stat())
        if isinstance(operation, Check):
            return Result(Code.OK, path, stat=node.stat())
        if node.children or path == "/":
            return Result(Code.NOT_EMPTY, path, stat=node.stat())
        self._remove(path)
        return Result(Code.OK, path)

    def _create(self, operation: Create) -> Result:
        path, value, ephemeral, sequential = operation
        if len(value) > VALUE_BYTES_MAX:
            return Result(Code.TOO_LARGE, path)
        parent = self._nodes.get(parent_of(path))
        if parent is None:
            return Result(Code.NO_NODE, path)
        if parent.owner != NO_OWNER:
            return Result(Code.NO_CHILDREN_FOR_EPHEMERALS, path)
        if sequential:
            path = f"{path}{parent.next_sequence:010d}"
        if path in self._nodes:
            return Result(Code.NODE_EXISTS, path)
        owner = self.session_id if ephemeral else NO_OWNER
        node = _Node(value, zxid=self.zxid, owner=owner, now_ms=self.now_ms)
        pzxid = parent.pzxid
        self._attach(path, node)
        parent.next_sequence += 1
        parent.pzxid = self.zxid

        def undo() -> None:
            self._detach(path)
            parent.next_sequence -= 1
            parent.pzxid = pzxid

        self._undo.append(undo)
        self.changes.append(WatchEvent(WatchKind.CREATED, path))
        return Result(Code.OK, path, stat=node.stat())

    def _set(self, operation: SetValue) -> Result:
        path, value, version = operation
        if len(value) > VALUE_BYTES_MAX:
            return Result(Code.TOO_LARGE, path)
        node = self._nodes.get(path)
        if node is None:
            return Result(Code.NO_NODE, path)
        if version not in (ANY_VERSION, node.version):
            return Result(Code.BAD_VERSION, path, stat=node.stat())
        before = (node.value, node.version, node.mzxid, node.mtime_ms)
        node.value = value
        node.version += 1
        node.mzxid = self.zxid
        node.mtime_ms = self.now_ms

        def undo() -> None:
            node.value, node.version, node.mzxid, node.mtime_ms = before

        self._undo.append(undo)
        self.changes.append(WatchEvent(WatchKind.CHANGED, path))
        return Result(Code.OK, path, stat=node.stat())

    def _remove(self, path: str) -> None:
        parent = self._nodes[parent_of(path)]
        pzxid = parent.pzxid
        node = self._detach(path)
        parent.pzxid = self.zxid

        def undo() -> None:
            self._attach(path, node)
            parent.pzxid = pzxid

        self._undo.append(undo)
        self.changes.append(WatchEvent(WatchKind.DELETED, path))

    def _attach(self, path: str, node: _Node) -> None:
        self._nodes[path] = node
        self._nodes[parent_of(path)].children[path.rpartition("/")[2]] = None
        if node.owner != NO_OWNER:
            self._owned.setdefault(node.owner, {})[path] = None

    def _detach(self, path: str) -> _Node:
        node = self._nodes.pop(path)
        del self._nodes[parent_of(path)].children[path.rpartition("/")[2]]
        if node.owner != NO_OWNER:
            owned = self._owned[node.owner]
            del owned[path]
            if not owned:
                del self._owned[node.owner]
        return node
