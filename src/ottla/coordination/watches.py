"""Watches kept in the process: who waits for which node, and whom a change wakes up.

For engines whose server doesn't keep them; used by one thread.
"""

from collections.abc import Iterator

from ottla.coordination.store import Watch, WatchEvent, WatchKind, parent_of


class WatchTable:
    """Watches on nodes and on lists of children. The same watch set twice on one node fires once."""

    __slots__ = ("_on_children", "_on_nodes")

    def __init__(self) -> None:
        # The inner dicts are ordered sets: watches fire in the order they were set.
        self._on_nodes: dict[str, dict[Watch, None]] = {}
        self._on_children: dict[str, dict[Watch, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._on_nodes.values())) + sum(map(len, self._on_children.values()))

    def watch_node(self, path: str, watch: Watch) -> None:
        self._on_nodes.setdefault(path, {})[watch] = None

    def watch_children(self, path: str, watch: Watch) -> None:
        self._on_children.setdefault(path, {})[watch] = None

    def clear(self) -> None:
        self._on_nodes.clear()
        self._on_children.clear()

    def fire(self, change: WatchEvent) -> Iterator[tuple[Watch, WatchEvent]]:
        """Take out the watches that `change` wakes up, each with its event: the node's first, then its parent's."""
        for watch in self.take(change):
            yield watch, change
        if change.kind != WatchKind.CHANGED:
            of_parent = WatchEvent(WatchKind.CHILDREN_CHANGED, parent_of(change.path))
            for watch in self.take(of_parent):
                yield watch, of_parent

    def take(self, event: WatchEvent) -> dict[Watch, None]:
        """Take out the watches that wait for exactly this event."""
        path = event.path
        if event.kind == WatchKind.CHILDREN_CHANGED:
            return self._on_children.pop(path, {})
        watches = self._on_nodes.pop(path, {})
        if event.kind == WatchKind.DELETED:
            # A watch that is set on both the node and its children fires once for the removal.
            watches |= self._on_children.pop(path, {})
        return watches
