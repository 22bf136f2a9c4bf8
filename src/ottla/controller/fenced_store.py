"""The store for one term of a controller: every multi checks first that the controller's epoch is still its own.

After the term has ended nothing is called back, so that no answer of an old term meets the state of a new one.
"""

from collections.abc import Callable, Sequence

from ottla.coordination import paths
from ottla.coordination.store import Check, Code, OnDone, Result, Store, Watch, WatchEvent, Write


class FencedStore:
    """Made for one term, on the broker's store. `on_fenced` is called when another broker has raised the epoch."""

    def __init__(self, store: Store, *, epoch_version: int, on_fenced: Callable[[], None]) -> None:
        self._store = store
        self._check = Check(paths.CONTROLLER_EPOCH, epoch_version)
        self._on_fenced = on_fenced
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def get(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        self._store.get(path, self._unless_closed(on_done), watch=self._watch_unless_closed(watch))

    def exists(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        self._store.exists(path, self._unless_closed(on_done), watch=self._watch_unless_closed(watch))

    def children(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        self._store.children(path, self._unless_closed(on_done), watch=self._watch_unless_closed(watch))

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        """As of any store; the check is not among the results."""

        def on_written(result: Result) -> None:
            if self.is_closed:
                return
            if result.results:
                if result.results[0].code == Code.BAD_VERSION:
                    self._on_fenced()
                    return
                result = result._replace(results=result.results[1:])
            on_done(result)

        if not self.is_closed:
            self._store.multi([self._check, *writes], on_written)

    def _unless_closed(self, on_done: OnDone) -> OnDone:
        def on_answer(result: Result) -> None:
            if not self.is_closed:
                on_done(result)

        return on_answer

    def _watch_unless_closed(self, watch: Watch | None) -> Watch | None:
        if watch is None:
            return None

        def on_event(event: WatchEvent) -> None:
            if not self.is_closed:
                watch(event)

        return on_event
