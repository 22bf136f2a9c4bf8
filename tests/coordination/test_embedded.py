"""The embedded engine: the conformance suite, and what is its own: lock, file, group commit, a failing disk."""

import os
import queue
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.coordination.embedded import EmbeddedStore
from ottla.coordination.embedded_file import STORE_FILE_NAME, StoreReader
from ottla.coordination.store import ANY_VERSION, Code, Post, Result, SessionState, Store, StoreOpenError, WatchKind
from tests.coordination.conformance import WAIT_SECONDS, Client, StoreConformance


class EmbeddedEngine:
    """Stores on one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.now_ms = 1_700_000_000_000

    def open(self, post: Post) -> EmbeddedStore:
        return EmbeddedStore(self.path, post=post, clock=lambda: self.now_ms)

    def expire(self, store: Store) -> None:
        assert isinstance(store, EmbeddedStore)
        store.expire_session()


@pytest.fixture
def engine(tmp_path: Path) -> EmbeddedEngine:
    return EmbeddedEngine(str(tmp_path / STORE_FILE_NAME))


class TestEmbeddedConformance(StoreConformance):
    """All of the suite."""


def test_stat_has_the_times_of_the_clock(engine: EmbeddedEngine) -> None:
    client = Client(engine)
    client.create("/a")
    engine.now_ms += 5
    client.set("/a", b"two")
    stat = client.get("/a").stat
    assert stat is not None
    assert (stat.ctime_ms, stat.mtime_ms) == (1_700_000_000_000, 1_700_000_000_005)
    client.store.close()


def test_zxids_and_sequences_go_on_after_reopening(engine: EmbeddedEngine) -> None:
    client = Client(engine)
    client.create("/a")
    client.create("/a/n", sequential=True)
    deleted = client.create("/b").stat
    client.delete("/b")
    client.store.close()
    client = Client(engine)
    created = client.create("/b").stat
    assert deleted is not None
    assert created is not None
    assert created.czxid > deleted.czxid + 1
    assert client.create("/a/n", sequential=True).path == "/a/n0000000001"
    client.store.close()


def test_multi_has_one_zxid(engine: EmbeddedEngine) -> None:
    client = Client(engine)
    first = client.create("/a").stat
    client.multi()
    assert first is not None
    second = client.create("/b").stat
    assert second is not None
    assert second.czxid == first.czxid + 2
    client.store.close()


class GatedLoop:
    """A loop that holds up the store's thread at its first word, until the gate is opened."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def post(self, callback: Callable[[], None]) -> None:
        if threading.current_thread() is not threading.main_thread():
            assert self.gate.wait(WAIT_SECONDS)
        self.posted.put(callback)

    def run_posted(self) -> None:
        while not self.posted.empty():
            self.posted.get()()


def test_queued_operations_share_one_commit(engine: EmbeddedEngine) -> None:
    loop = GatedLoop()
    store = engine.open(loop.post)
    statements: list[str] = []
    results: list[Result] = []
    store._connection.set_trace_callback(statements.append)
    for _ in range(500):
        store.create("/n", b"x", results.append, sequential=True)
    loop.gate.set()
    store.close()
    loop.run_posted()
    assert [result.code for result in results] == [Code.OK] * 500
    assert statements.count("COMMIT") <= 3  # the session's begin, the 500, the session's end


def test_commits_are_synced_to_the_disk(engine: EmbeddedEngine) -> None:
    client = Client(engine)
    connection = client.store._connection  # type: ignore[attr-defined]
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    client.store.close()


def test_second_opening_is_refused_with_the_owner_named(engine: EmbeddedEngine) -> None:
    client = Client(engine)
    with pytest.raises(StoreOpenError, match=f"in use by process {os.getpid()}; stop that broker"):
        engine.open(lambda callback: None)
    assert client.create("/a").is_ok
    client.store.close()
    Client(engine).store.close()


def test_second_process_is_refused(engine: EmbeddedEngine) -> None:
    client = Client(engine)
    script = "import sys; from ottla.coordination.embedded import EmbeddedStore; EmbeddedStore(sys.argv[1], post=print)"
    other = subprocess.run([sys.executable, "-c", script, engine.path], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "is in use by process" in other.stderr
    client.store.close()


def test_missing_directory_is_a_worded_error(tmp_path: Path) -> None:
    with pytest.raises(StoreOpenError, match=r"cannot be opened: .*No such file"):
        EmbeddedEngine(str(tmp_path / "missing" / "store")).open(lambda callback: None)


def test_file_that_is_no_database_is_a_worded_error_and_leaves_no_lock(engine: EmbeddedEngine) -> None:
    Path(engine.path).write_bytes(b"this is no database at all" * 100)
    with pytest.raises(StoreOpenError, match="cannot be opened: file is not a database"):
        engine.open(lambda callback: None)
    Path(engine.path).unlink()
    Client(engine).store.close()


def test_layout_of_another_version_is_refused(engine: EmbeddedEngine) -> None:
    Client(engine).store.close()
    connection = sqlite3.connect(engine.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreOpenError, match="has layout 99, expected 1"):
        engine.open(lambda callback: None)
    with pytest.raises(StoreOpenError, match="has layout 99, expected 1"):
        StoreReader(engine.path)


def test_reader_sees_committed_nodes_while_the_store_is_open_and_after(engine: EmbeddedEngine) -> None:
    client = Client(engine)
    client.create("/a", b"one")
    with StoreReader(engine.path) as reader:
        assert reader.read("/").children == ("a",)
        client.create("/a/b")
        assert reader.read("/a").children == ()  # one moment for the whole look
    with StoreReader(engine.path) as reader:
        assert reader.read("/a").children == ("b",)
    client.store.close()
    with StoreReader(engine.path) as reader:
        assert reader.read("/a").value == b"one"
        assert reader.read("/missing").code == Code.NO_NODE


def test_reader_of_a_missing_file_makes_none(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE_NAME
    with pytest.raises(StoreOpenError, match="there is no coordination store"):
        StoreReader(str(path))
    assert not path.exists()


def test_full_disk_suspends_and_the_store_comes_back_by_itself(
    engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.coordination.embedded.PROBE_SECONDS", 0.01)
    client = Client(engine)
    client.create("/a", b"one")
    client.get("/a", watch=True)
    connection = client.store._connection  # type: ignore[attr-defined]
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    lost = client.create("/big", bytes(100_000))
    assert lost.code == Code.CONNECTION_LOST
    assert "full" in lost.detail
    client.run_until(lambda: SessionState.SUSPENDED in client.states)
    connection.execute("PRAGMA max_page_count = 1000000")
    client.run_until(lambda: client.states[-1] == SessionState.CONNECTED)
    assert client.exists("/big").code == Code.NO_NODE
    assert client.create("/big", bytes(100_000)).is_ok
    stat = client.get("/").stat
    assert stat is not None
    assert stat.num_children == 2
    client.set("/a", b"two")
    client.expect_events((WatchKind.CHANGED, "/a"))
    assert client.states == [SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.CONNECTED]
    client.store.close()


def test_queue_is_bounded(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordination.embedded.QUEUED_CALLS_MAX", 100)
    loop = GatedLoop()
    store = engine.open(loop.post)
    results: list[Result] = []
    for _ in range(107):
        store.exists("/", results.append)
    loop.run_posted()
    assert [result.code for result in results] == [Code.CONNECTION_LOST] * 7
    loop.gate.set()
    store.close()
    loop.run_posted()
    assert [result.code for result in results[7:]] == [Code.OK] * 100


def test_value_that_is_not_bytes_is_a_bug_of_the_caller(engine: EmbeddedEngine) -> None:
    client = Client(engine)
    with pytest.raises(ValueError, match="must be bytes, got str"):
        client.store.set("/a", "text", lambda result: None, version=ANY_VERSION)  # type: ignore[arg-type]
    client.store.close()
