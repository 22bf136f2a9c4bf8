"""The notes below /config/changes, from which other brokers learn whose config to read again. Old ones are removed."""

from collections import deque

from ottla.coordination import paths
from ottla.coordination.store import ANY_VERSION, Result, Store
from ottla.core.clock import Clock
from ottla.core.types import TimestampMs

# As long as Kafka keeps them: a broker that was away for longer reads everything at its start anyway.
NOTES_KEPT_MS = 15 * 60 * 1000


class ConfigNotes:
    """Owned by the controller's `Configs`; event loop only."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._notes: deque[tuple[TimestampMs, str]] = deque()  # by age: when it was made, path

    def load(self) -> None:
        """Find out how old the notes are that others have made; the old ones go."""

        def on_listed(result: Result) -> None:
            found: list[tuple[TimestampMs, str]] = []
            left = len(result.children)

            def on_stat(stat_of: Result) -> None:
                nonlocal left
                left -= 1
                if stat_of.stat is not None:
                    found.append((stat_of.stat.ctime_ms, stat_of.path))
                if left == 0:
                    self._notes = deque(sorted({*found, *self._notes}))
                    self._remove_old()

            for name in result.children:
                self._store.exists(f"{paths.CONFIG_CHANGES}/{name}", on_stat)

        self._store.children(paths.CONFIG_CHANGES, on_listed)

    def add(self, written: Result) -> None:
        """A change was written, its note last; older ones may go."""
        self._notes.append((self._clock(), written.results[-1].path))
        self._remove_old()

    def _remove_old(self) -> None:
        kept_since_ms = self._clock() - NOTES_KEPT_MS
        while self._notes and self._notes[0][0] < kept_since_ms:
            _, path = self._notes.popleft()
            # Gone already, or not to be removed now: the next start looks again.
            self._store.delete(path, lambda _: None, version=ANY_VERSION)
