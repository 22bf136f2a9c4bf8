"""The engine in memory: the conformance suite, and what is its own: several clients, sessions over time, faults."""

from collections import deque
from collections.abc import Callable

import pytest

from ottla.coordination.memory import MemoryStore
from ottla.coordination.memory_ensemble import MemoryEnsemble
from ottla.coordination.store import Post, Store
from tests.coordination.conformance import StoreConformance


class _StandingTimer:
    def cancel(self) -> None:
        pass


class StandingLoop:
    """A loop on which no time passes; its turns are those of whoever gave `post`."""

    def __init__(self, post: Post) -> None:
        self.call_soon = post

    def time(self) -> float:
        return 1_700_000_000.0

    def call_at(self, when: float, callback: Callable[[], None]) -> _StandingTimer:
        return _StandingTimer()


class MemoryEngine:
    """Stores on one ensemble, whose work is done in the turns of the client that was opened last."""

    def __init__(self) -> None:
        self._post: Post = lambda callback: None
        self._work: deque[Callable[[], None]] = deque()
        self.ensemble = MemoryEnsemble(StandingLoop(self._post_work))

    def _post_work(self, callback: Callable[[], None]) -> None:
        self._work.append(callback)
        self._post(self._do_work)

    def _do_work(self) -> None:
        while self._work:
            self._work.popleft()()

    def open(self, post: Post) -> MemoryStore:
        self._post = post
        return MemoryStore(self.ensemble, StandingLoop(post))

    def expire(self, store: Store) -> None:
        self.ensemble.expire(store.session_id)


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


class TestMemoryConformance(StoreConformance):
    """All of the suite."""
