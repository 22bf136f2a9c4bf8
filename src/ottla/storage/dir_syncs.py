"""Fsyncs of log directories whose folders were made or renamed: all that wait for one share it.

An fsync that is under way does not cover what changed after it began; callers that come then share the next one.
"""

from collections.abc import Callable
from functools import partial

OnDone = Callable[[], None]


def at_once(call: OnDone) -> None:
    """The `call_soon` of callers without a loop."""
    call()


class DirSyncs:
    """Owned by the folders of partitions; event loop only. `sync(directory, on_done)` calls back also when it failed.

    `call_soon` puts the beginning of an fsync off to the next turn of the loop: what is made in this one, be it five
    hundred topics, shares it, and does not have to wait for it at the file system's own locks.
    """

    def __init__(self, sync: Callable[[str, OnDone], None], *, call_soon: Callable[[OnDone], object] = at_once) -> None:
        self._sync = sync
        self._call_soon = call_soon
        # Directories with changes that no fsync which has begun covers, as the keys of a dict: they keep their order.
        self._changed: dict[str, None] = {}
        self._waiting: dict[str, list[OnDone]] = {}  # directory -> who waits for an fsync that has not begun
        self._running: dict[str, list[OnDone]] = {}  # directory -> who waits for the one that has

    def note_change(self, directory: str) -> None:
        self._changed[directory] = None

    def when_synced(self, on_done: OnDone) -> None:
        """Call back when every change so far is durable, or its directory offline; at once where that is so."""
        # Also for an fsync that another caller began: changes of this one may be among what it covers.
        directories = [*self._changed, *(running for running in self._running if running not in self._changed)]
        left = len(directories)
        if not left:
            on_done()
            return

        def after() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                on_done()

        for directory in directories:
            if directory not in self._changed:
                self._running[directory].append(after)
            elif directory in self._waiting:
                self._waiting[directory].append(after)
            else:
                self._waiting[directory] = [after]
                if directory not in self._running:
                    self._call_soon(partial(self._begin, directory))

    def _begin(self, directory: str) -> None:
        self._changed.pop(directory, None)
        self._running[directory] = self._waiting.pop(directory)
        self._sync(directory, partial(self._finish, directory))

    def _finish(self, directory: str) -> None:
        done = self._running.pop(directory)
        if directory in self._waiting:
            self._begin(directory)
        for on_done in done:
            on_done()
