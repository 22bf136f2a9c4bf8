"""The store for one term of a controller: every multi checks first that the controller's epoch is still its own.

After the term has ended nothing is called back, so that no answer of an old term meets the state of a new one. Reads
whose connection was lost are asked again; a write whose answer was lost is its caller's to find out about.
"""

from collections.abc import Callable, Sequence

from ottla.coordination import paths
from ottla.coordination.store import Check, Code, OnDone, Result, Store, Watch, WatchEvent, Write

_RETRY_MS = 100


class FencedStore:
    """Made for one term. `on_fenced`: another broker has raised the epoch, or the session has ended."""

    def __init__(
        self,
        store: Store,
        call_later: Callable[[int, Callable[[], None]], object],
        *,
        epoch_version: int,
        on_fenced: Callable[[], None],
    ) -> None:
        self._store = store
        self._call_later = call_later
        self._check = Check(paths.CONTROLLER_EPOCH, epoch_version)
        self._on_fenced = on_fenced
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def get(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        self._read(self._store.get, path, on_done, watch)

    def exists(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        self._read(self._store.exists, path, on_done, watch)

    def children(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        self._read(self._store.children, path, on_done, watch)

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        """As of any store; the check is not among the results."""

        def on_written(result: Result) -> None:
            if self.is_closed:
                return
            if result.code == Code.SESSION_EXPIRED:
                self._on_fenced()
                return
            if result.results:
                if result.results[0].code == Code.BAD_VERSION:
                    self._on_fenced()
                    return
                result = result._replace(results=result.results[1:])
            on_done(result)

        if not self.is_closed:
            self._store.multi([self._check, *writes], on_written)

    def _read(self, question: Callable[..., None], path: str, on_done: OnDone, watch: Watch | None) -> None:
        """Ask until it is answered: the connection comes back, or the session ends and the term with it."""

        def ask() -> None:
            if not self.is_closed:
                question(path, on_answer, watch=None if watch is None else on_event)

        def on_answer(result: Result) -> None:
            if self.is_closed:
                return
            if result.code == Code.CONNECTION_LOST:
                self._call_later(_RETRY_MS, ask)
            elif result.code == Code.SESSION_EXPIRED:
                self._on_fenced()
            else:
                on_done(result)

        def on_event(event: WatchEvent) -> None:
            if not self.is_closed and watch is not None:
                watch(event)

        ask()
