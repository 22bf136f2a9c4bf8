"""Nodes that brokers leave for the controller below one parent: read, handed over, removed."""

from collections.abc import Callable
from functools import partial

from ottla.controller.fenced_store import FencedStore
from ottla.coordination.store import ANY_VERSION, Delete, Result, WatchEvent

_REMOVED_AT_ONCE = 1_000


class Notifications:
    """Owned by one term of the controller. What can't be removed now is found, and handed over, once more."""

    def __init__(self, store: FencedStore, parent: str, on_found: Callable[[list[Result]], None]) -> None:
        self._store = store
        self._parent = parent
        self._on_found = on_found
        self._is_busy = False
        self._is_changed = False

    def start(self) -> None:
        self._is_busy = True
        self._is_changed = False
        self._store.children(self._parent, self._on_listed, watch=self._on_change)

    def _on_change(self, event: WatchEvent) -> None:
        if self._is_busy:
            self._is_changed = True
        else:
            self.start()

    def _on_listed(self, listed: Result) -> None:
        names = listed.children[:_REMOVED_AT_ONCE]
        found: list[Result] = []
        unread = len(names)
        if not names:
            self._end()

        def on_read(result: Result) -> None:
            nonlocal unread
            unread -= 1
            if result.is_ok:
                found.append(result)
            if unread == 0:
                self._on_found(found)
                self._remove([result.path for result in found])

        for name in names:
            self._store.get(f"{self._parent}/{name}", on_read)

    def _remove(self, removed: list[str]) -> None:
        if not removed:
            self._end()
            return
        writes = [Delete(path, ANY_VERSION) for path in removed]
        self._store.multi(writes, partial(self._on_removed, removed))

    def _on_removed(self, removed: list[str], result: Result) -> None:
        if not result.is_ok and len(removed) > 1:  # somebody removed one of them: each on its own then
            for path in removed:
                self._store.multi([Delete(path, ANY_VERSION)], lambda _: None)
        self._end()

    def _end(self) -> None:
        self._is_busy = False
        if self._is_changed:
            self.start()
