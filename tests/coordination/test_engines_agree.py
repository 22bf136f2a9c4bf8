"""Random operations on both engines, side by side: the same results, the same events, the same tree."""

import queue
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.embedded_file import STORE_FILE_NAME
from ottla.coordination.store import (
    ANY_VERSION,
    VALUE_BYTES_MAX,
    Check,
    Create,
    Delete,
    Post,
    Result,
    SessionState,
    SetValue,
    Store,
    WatchEvent,
    Write,
)
from tests.coordination.conformance import WAIT_SECONDS, Engine
from tests.coordination.test_memory import MemoryEngine

pytestmark = pytest.mark.slow

PATHS = st.sampled_from(["/", "/a", "/b", "/a/a", "/a/b", "/a/a/a", "/a0000000000", "/b/0000000001"])
VALUES = st.sampled_from([b"", b"x", b"y" * 100, bytes(VALUE_BYTES_MAX + 1)])
VERSIONS = st.sampled_from([ANY_VERSION, ANY_VERSION, 0, 1, 2])
WRITES: st.SearchStrategy[Write] = st.one_of(
    st.builds(Create, PATHS, VALUES, st.booleans(), st.booleans()),
    st.builds(Create, PATHS, VALUES),
    st.builds(SetValue, PATHS, VALUES, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)
# A read is its method, its path, and the number of its watch, if there is one.
READS = st.tuples(st.sampled_from(["get", "exists", "children"]), PATHS, st.one_of(st.none(), st.integers(0, 2)))
EXPIRE = st.just("expire")
Step = Write | list[Write] | tuple[str, str, int | None] | str
# What is called without waiting in between.
TURNS = st.lists(
    st.lists(st.one_of(WRITES, WRITES, READS, READS, st.lists(WRITES, max_size=5), EXPIRE), min_size=1, max_size=6),
    max_size=12,
)


class Side:
    """One engine with its client."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.results: list[Result] = []
        self.states: list[SessionState] = []
        self.events: list[tuple[int, WatchEvent]] = []
        self._watches = [self._watch(number) for number in range(3)]
        self.store = engine.open(self._posted.put)
        self.store.add_session_listener(self.states.append)
        self._run_until(lambda: bool(self.states))

    def _watch(self, number: int) -> Callable[[WatchEvent], None]:
        return lambda event: self.events.append((number, event))

    def _run_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self._posted.get(timeout=WAIT_SECONDS)()

    def run(self, turn: Sequence[Step]) -> None:
        self.results, self.events = [], []
        for step in turn:
            if step == "expire":
                self._settle()
                self._engine.expire(self.store)
                sessions = self.states.count(SessionState.CONNECTED)
                self._run_until(lambda sessions=sessions: self.states.count(SessionState.CONNECTED) > sessions)  # type: ignore[misc]
            else:
                self._call(step)
        self._settle()
        self.events.sort()

    def _settle(self) -> None:
        """Events are there before the answer to a later operation."""
        done: list[Result] = []
        self.store.exists("/", done.append)
        self._run_until(lambda: bool(done))

    def _call(self, step: Step) -> None:
        store, note = self.store, self.results.append
        match step:
            case Create(path, value, ephemeral, sequential):
                store.create(path, value, note, ephemeral=ephemeral, sequential=sequential)
            case SetValue(path, value, version):
                store.set(path, value, note, version=version)
            case Delete(path, version):
                store.delete(path, note, version=version)
            case Check():
                store.multi([step], note)
            case list():
                store.multi(step, note)
            case (method, path, number):
                watch = None if number is None else self._watches[number]
                getattr(store, method)(path, note, watch=watch)

    def tree(self, path: str = "/") -> list[Result]:
        found: list[Result] = []
        self.store.get(path, found.append)
        self.store.children(path, found.append)
        self._run_until(lambda: len(found) == 2)
        for name in found[1].children:
            found += self.tree(f"{path.rstrip('/')}/{name}")
        return found


class EmbeddedEngine:
    """A file with the clock of the other engine's tests."""

    def __init__(self, directory: str) -> None:
        self._path = str(Path(directory) / STORE_FILE_NAME)

    def open(self, post: Post) -> EmbeddedStore:
        return EmbeddedStore(self._path, post=post, clock=lambda: 1_700_000_000_000)

    def expire(self, store: Store) -> None:
        assert isinstance(store, EmbeddedStore)
        store.expire_session()


@settings(max_examples=60, deadline=None)
@given(TURNS)
def test_engines_agree(turns: list[list[Step]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        embedded, memory = Side(EmbeddedEngine(directory)), Side(MemoryEngine())
        for turn in turns:
            embedded.run(turn)
            memory.run(turn)
            assert memory.results == embedded.results
            assert memory.events == embedded.events
            assert memory.store.session_id == embedded.store.session_id
        assert memory.tree() == embedded.tree()
        memory.store.close()
        embedded.store.close()
