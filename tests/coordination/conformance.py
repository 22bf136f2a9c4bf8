"""What every engine of the coordination store must do; run for each engine by a subclass of `StoreConformance`.

An engine's test module gives a fixture `engine` that opens clients on one empty tree. The tests use only what the
port promises, so they know no order between a watch and the callback of the change that fired it.
"""

import queue
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import pytest

from ottla.coordination.store import (
    ANY_VERSION,
    NO_OWNER,
    VALUE_BYTES_MAX,
    Check,
    Code,
    Create,
    Delete,
    OnDone,
    Post,
    Result,
    SessionState,
    SetValue,
    Store,
    WatchEvent,
    WatchKind,
    Write,
)

WAIT_SECONDS = 30.0


class Engine(Protocol):
    """How a test gets at a store."""

    def open(self, post: Post) -> Store:
        """A new client with a session of its own on the engine's tree."""
        ...

    def expire(self, store: Store) -> None:
        """Let the client's session expire, as if it had been silent for too long."""
        ...


class Client:
    """A store with a loop: calls run the loop until their answer is there."""

    def __init__(self, engine: Engine) -> None:
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.states: list[SessionState] = []
        self.events: list[WatchEvent] = []
        self.store = engine.open(self._posted.put)
        self.store.add_session_listener(self.states.append)
        self.run_until(lambda: SessionState.CONNECTED in self.states)

    def run_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self._posted.get(timeout=WAIT_SECONDS)()

    def call(self, operation: Callable[[OnDone], None]) -> Result:
        results: list[Result] = []
        operation(results.append)
        assert results == [], "a callback came inside the call"
        self.run_until(lambda: bool(results))
        return results[0]

    def create(self, path: str, value: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> Result:
        create = self.store.create
        return self.call(lambda done: create(path, value, done, ephemeral=ephemeral, sequential=sequential))

    def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Result:
        return self.call(lambda done: self.store.set(path, value, done, version=version))

    def delete(self, path: str, version: int = ANY_VERSION) -> Result:
        return self.call(lambda done: self.store.delete(path, done, version=version))

    def get(self, path: str, *, watch: bool = False) -> Result:
        return self.call(lambda done: self.store.get(path, done, watch=self.events.append if watch else None))

    def exists(self, path: str, *, watch: bool = False) -> Result:
        return self.call(lambda done: self.store.exists(path, done, watch=self.events.append if watch else None))

    def children(self, path: str, *, watch: bool = False) -> Result:
        return self.call(lambda done: self.store.children(path, done, watch=self.events.append if watch else None))

    def multi(self, *writes: Write) -> Result:
        return self.call(lambda done: self.store.multi(writes, done))

    def expect_events(self, *expected: tuple[WatchKind, str]) -> None:
        """These events have come or come now, in any order, and no others."""
        self.run_until(lambda: len(self.events) >= len(expected))
        self.exists("/")
        assert sorted(self.events) == sorted(WatchEvent(kind, path) for kind, path in expected)
        self.events.clear()


class StoreConformance:
    """The suite."""

    @pytest.fixture
    def client(self, engine: Engine) -> Iterator[Client]:
        client = Client(engine)
        yield client
        client.store.close()

    # Nodes and versions

    def test_created_node_is_read_back_with_its_stat(self, client: Client) -> None:
        created = client.create("/a", b"one")
        assert (created.code, created.path) == (Code.OK, "/a")
        read = client.get("/a")
        assert (read.code, read.path, read.value) == (Code.OK, "/a", b"one")
        assert read.stat is not None
        assert (read.stat.version, read.stat.num_children, read.stat.ephemeral_owner) == (0, 0, NO_OWNER)
        assert read.stat.czxid == read.stat.mzxid > 0
        assert read.stat.ctime_ms == read.stat.mtime_ms > 0

    def test_empty_and_binary_values_are_kept_as_they_are(self, client: Client) -> None:
        for path, value in (("/empty", b""), ("/binary", bytes(range(256)))):
            client.create(path, value)
            assert client.get(path).value == value

    def test_create_needs_its_parent_and_a_free_name(self, client: Client) -> None:
        assert client.create("/a/b").code == Code.NO_NODE
        assert client.create("/a").is_ok
        assert client.create("/a").code == Code.NODE_EXISTS
        assert client.create("/a/b").is_ok

    def test_set_raises_the_version_and_keeps_the_creation(self, client: Client) -> None:
        created = client.create("/a", b"one").stat
        changed = client.set("/a", b"two", 0)
        assert changed.is_ok
        read = client.get("/a")
        assert read.value == b"two"
        assert read.stat is not None
        assert created is not None
        assert changed.stat == read.stat
        assert read.stat.version == 1
        assert read.stat.czxid == created.czxid < read.stat.mzxid

    def test_set_at_another_version_is_refused_and_changes_nothing(self, client: Client) -> None:
        client.create("/a", b"one")
        assert client.set("/a", b"two", 7).code == Code.BAD_VERSION
        assert client.get("/a").value == b"one"
        assert client.set("/a", b"two", ANY_VERSION).is_ok
        assert client.set("/a", b"three", 0).code == Code.BAD_VERSION
        assert client.set("/missing", b"", ANY_VERSION).code == Code.NO_NODE

    def test_delete_checks_version_and_children(self, client: Client) -> None:
        client.create("/a")
        client.create("/a/b")
        assert client.delete("/a").code == Code.NOT_EMPTY
        assert client.delete("/a/b", 3).code == Code.BAD_VERSION
        assert client.delete("/a/b", 0).is_ok
        assert client.delete("/a/b").code == Code.NO_NODE
        assert client.delete("/a").is_ok
        assert client.exists("/a").code == Code.NO_NODE

    def test_children_are_the_sorted_names_of_the_next_level_only(self, client: Client) -> None:
        for path in ("/a", "/a/z", "/a/b", "/a/b/c", "/ab"):
            client.create(path)
        listed = client.children("/a")
        assert listed.children == ("b", "z")
        assert listed.stat is not None
        assert listed.stat.num_children == 2
        assert client.children("/a/z").children == ()
        assert client.children("/missing").code == Code.NO_NODE

    def test_recreated_node_starts_at_version_zero(self, client: Client) -> None:
        client.create("/a")
        client.set("/a", b"two")
        client.delete("/a")
        client.create("/a")
        stat = client.get("/a").stat
        assert stat is not None
        assert stat.version == 0

    def test_largest_value_fits_and_a_larger_one_is_refused(self, client: Client) -> None:
        assert client.create("/a", bytes(VALUE_BYTES_MAX)).is_ok
        assert client.create("/b", bytes(VALUE_BYTES_MAX + 1)).code == Code.TOO_LARGE
        assert client.set("/a", bytes(VALUE_BYTES_MAX + 1)).code == Code.TOO_LARGE
        assert client.multi(Create("/b", bytes(VALUE_BYTES_MAX + 1))).code == Code.TOO_LARGE
        assert client.exists("/b").code == Code.NO_NODE

    @pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a/../b", "/.", "/a\x00b", "/a\ud800"])
    def test_malformed_path_is_a_bug_of_the_caller(self, client: Client, path: str) -> None:
        store = client.store
        calls: list[Callable[[OnDone], None]] = [
            partial(store.create, path, b""),
            partial(store.get, path),
            partial(store.exists, path),
            partial(store.children, path),
            partial(store.set, path, b"", version=0),
            partial(store.delete, path, version=0),
            partial(store.multi, [Check(path, 0)]),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="malformed"):
                call(lambda result: None)

    # Sequential nodes

    def test_sequential_names_grow_and_are_never_given_again(self, client: Client) -> None:
        client.create("/queue")
        first = client.create("/queue/n_", b"x", sequential=True).path
        second = client.create("/queue/n_", b"y", sequential=True).path
        assert first < second
        assert len(first) == len("/queue/n_") + 10
        assert first[-10:].isdecimal()
        client.delete(second)
        third = client.create("/queue/n_", sequential=True).path
        assert second < third
        assert client.get(first).value == b"x"

    def test_sequential_names_count_for_each_parent(self, client: Client) -> None:
        client.create("/p")
        client.create("/q")
        client.create("/p/n", sequential=True)
        assert client.create("/q/n", sequential=True).path == "/q/n0000000000"
        assert client.create("/r/n", sequential=True).code == Code.NO_NODE

    # Ephemerals and sessions

    def test_ephemeral_belongs_to_its_session_and_has_no_children(self, client: Client) -> None:
        assert client.create("/e", ephemeral=True).is_ok
        stat = client.get("/e").stat
        assert stat is not None
        assert stat.ephemeral_owner == client.store.session_id != NO_OWNER
        assert client.create("/e/child").code == Code.NO_CHILDREN_FOR_EPHEMERALS

    def test_close_removes_ephemerals_and_keeps_the_rest(self, engine: Engine) -> None:
        client = Client(engine)
        session_id = client.store.session_id
        client.create("/p", b"kept")
        client.create("/p/e", ephemeral=True)
        client.create("/p/s", ephemeral=True, sequential=True)
        client.store.close()
        client = Client(engine)
        assert client.store.session_id != session_id
        assert client.get("/p").value == b"kept"
        assert client.children("/p").children == ()
        stat = client.get("/p").stat
        assert stat is not None
        assert stat.num_children == 0
        client.store.close()

    def test_operation_after_close_ends_as_session_expired(self, engine: Engine) -> None:
        client = Client(engine)
        client.store.close()
        client.store.close()
        assert client.get("/").code == Code.SESSION_EXPIRED
        assert client.create("/a").code == Code.SESSION_EXPIRED

    def test_expired_session_loses_ephemerals_and_watches_and_a_new_one_begins(
        self, engine: Engine, client: Client
    ) -> None:
        client.create("/p")
        client.create("/e", ephemeral=True)
        client.get("/p", watch=True)
        client.exists("/e", watch=True)
        old_session_id = client.store.session_id
        client.states.clear()
        engine.expire(client.store)
        client.run_until(lambda: SessionState.EXPIRED in client.states and client.states[-1] == SessionState.CONNECTED)
        assert client.store.session_id != old_session_id
        assert client.exists("/e").code == Code.NO_NODE
        assert client.set("/p", b"new").is_ok
        client.exists("/p")
        assert client.events == []

    def test_nothing_meant_for_the_old_session_is_done_in_the_new_one(self, engine: Engine, client: Client) -> None:
        # The listener tells the owner; a call made before it heard of the new session must not count in that one.
        results: list[Result] = []

        def call_at_expiry(state: SessionState) -> None:
            if state == SessionState.EXPIRED:
                client.store.create("/controller", b"old", results.append, ephemeral=True)

        client.states.clear()
        client.store.add_session_listener(call_at_expiry)
        engine.expire(client.store)
        client.run_until(lambda: bool(results) and client.states[-1] == SessionState.CONNECTED)
        assert results[0].code == Code.SESSION_EXPIRED
        assert client.exists("/controller").code == Code.NO_NODE

    # Order

    def test_callbacks_come_in_the_order_of_the_calls(self, client: Client) -> None:
        order: list[int] = []
        store = client.store
        store.create("/n", b"0", lambda result: order.append(0))
        for number in range(1, 100):
            on_done = partial(lambda number, result: order.append(number), number)
            if number % 3 == 0:
                store.set("/n", b"%d" % number, on_done, version=ANY_VERSION)
            elif number % 3 == 1:
                store.get("/n", on_done)
            else:
                store.multi([SetValue("/n", b"m", ANY_VERSION)], on_done)
        client.run_until(lambda: len(order) == 100)
        assert order == list(range(100))

    def test_read_sees_the_writes_called_before_it(self, client: Client) -> None:
        results: list[Result] = []
        store = client.store
        store.create("/n", b"", results.append)
        for number in range(50):
            store.set("/n", b"%d" % number, results.append, version=number)
            store.get("/n", results.append)
        client.run_until(lambda: len(results) == 101)
        assert all(result.is_ok for result in results)
        assert [result.value for result in results[2::2]] == [b"%d" % number for number in range(50)]

    def test_one_refused_operation_does_not_harm_its_neighbours(self, client: Client) -> None:
        results: list[Result] = []
        store = client.store
        store.create("/a", b"", results.append)
        store.create("/a", b"", results.append)
        store.create("/missing/b", b"", results.append)
        store.create("/c", b"", results.append)
        client.run_until(lambda: len(results) == 4)
        assert [result.code for result in results] == [Code.OK, Code.NODE_EXISTS, Code.NO_NODE, Code.OK]

    # Watches

    def test_watch_on_a_value_fires_once_for_the_next_change(self, client: Client) -> None:
        client.create("/a")
        client.get("/a", watch=True)
        client.set("/a", b"two")
        client.expect_events((WatchKind.CHANGED, "/a"))
        client.set("/a", b"three")
        client.expect_events()

    def test_watch_never_fires_inside_a_call(self, client: Client) -> None:
        client.create("/a")
        client.get("/a", watch=True)
        client.store.set("/a", b"two", lambda result: None, version=ANY_VERSION)
        assert client.events == []
        client.expect_events((WatchKind.CHANGED, "/a"))

    def test_watch_set_before_a_queued_change_hears_it_and_one_set_after_does_not(self, client: Client) -> None:
        client.create("/a")
        late: list[WatchEvent] = []
        store = client.store
        store.get("/a", lambda result: None, watch=client.events.append)
        store.set("/a", b"two", lambda result: None, version=ANY_VERSION)
        store.get("/a", lambda result: None, watch=late.append)
        client.expect_events((WatchKind.CHANGED, "/a"))
        assert late == []

    def test_watch_on_a_missing_node_fires_at_its_creation(self, client: Client) -> None:
        assert client.exists("/a", watch=True).code == Code.NO_NODE
        client.create("/a")
        client.expect_events((WatchKind.CREATED, "/a"))

    def test_get_of_a_missing_node_sets_no_watch(self, client: Client) -> None:
        client.get("/a", watch=True)
        client.children("/a", watch=True)
        client.create("/a")
        client.create("/a/b")
        client.expect_events()

    @pytest.mark.parametrize("read", [Client.get, Client.exists, Client.children])
    def test_removal_fires_every_kind_of_watch(self, client: Client, read: Callable[..., Result]) -> None:
        client.create("/a")
        read(client, "/a", watch=True)
        client.delete("/a")
        client.expect_events((WatchKind.DELETED, "/a"))

    def test_watch_on_children_fires_when_one_comes_or_goes(self, client: Client) -> None:
        client.create("/a")
        client.children("/a", watch=True)
        client.create("/a/b")
        client.expect_events((WatchKind.CHILDREN_CHANGED, "/a"))
        client.children("/a", watch=True)
        client.delete("/a/b")
        client.expect_events((WatchKind.CHILDREN_CHANGED, "/a"))

    def test_watch_on_children_is_deaf_to_values_and_grandchildren(self, client: Client) -> None:
        for path in ("/a", "/a/b"):
            client.create(path)
        client.children("/a", watch=True)
        client.set("/a", b"new")
        client.set("/a/b", b"new")
        client.create("/a/b/c")
        client.expect_events()

    def test_watch_on_a_value_is_deaf_to_children(self, client: Client) -> None:
        client.create("/a")
        client.get("/a", watch=True)
        client.create("/a/b")
        client.expect_events()

    def test_refused_change_fires_nothing(self, client: Client) -> None:
        client.create("/a")
        client.get("/a", watch=True)
        client.set("/a", b"two", 9)
        client.multi(SetValue("/a", b"two", 0), Check("/a", 9))
        client.expect_events()

    def test_two_watches_on_one_node_both_fire(self, client: Client) -> None:
        client.create("/a")
        others: list[WatchEvent] = []
        client.get("/a", watch=True)
        client.call(lambda done: client.store.get("/a", done, watch=others.append))
        client.set("/a", b"two")
        client.expect_events((WatchKind.CHANGED, "/a"))
        assert others == [WatchEvent(WatchKind.CHANGED, "/a")]

    # Multi

    def test_multi_does_all_of_it(self, client: Client) -> None:
        client.create("/a", b"one")
        client.create("/gone")
        done = client.multi(
            Check("/a", 0),
            SetValue("/a", b"two", 0),
            Create("/a/b", b"new"),
            Create("/a/b/n_", b"", sequential=True),
            Delete("/gone", 0),
        )
        assert done.is_ok
        assert [result.code for result in done.results] == [Code.OK] * 5
        assert done.results[3].path == "/a/b/n_0000000000"
        assert client.get("/a").value == b"two"
        assert client.get("/a/b").value == b"new"
        assert client.exists("/gone").code == Code.NO_NODE

    @pytest.mark.parametrize(
        ("last", "code"),
        [
            (Check("/a", 5), Code.BAD_VERSION),
            (SetValue("/a", b"", 5), Code.BAD_VERSION),
            (Delete("/missing", ANY_VERSION), Code.NO_NODE),
            (Create("/a", b""), Code.NODE_EXISTS),
            (Delete("/a", ANY_VERSION), Code.NOT_EMPTY),
        ],
    )
    def test_multi_that_fails_changes_nothing_and_says_which_write_was_at_fault(
        self, client: Client, last: Write, code: Code
    ) -> None:
        client.create("/a", b"one")
        before = client.get("/a")
        writes: Sequence[Write] = (SetValue("/a", b"two", 0), Create("/a/b", b""), last, Create("/z", b""))
        if code == Code.BAD_VERSION:
            writes = writes[1:]
        done = client.multi(*writes)
        assert (done.code, done.path) == (code, last.path)
        assert [result.code for result in done.results] == [
            code if write is last else Code.ROLLED_BACK for write in writes
        ]
        assert client.get("/a") == before
        assert client.children("/a").children == ()
        assert client.exists("/z").code == Code.NO_NODE

    def test_multi_fires_watches_of_all_its_writes(self, client: Client) -> None:
        client.create("/a")
        client.get("/a", watch=True)
        client.children("/a", watch=True)
        client.multi(SetValue("/a", b"two", 0), Create("/a/b", b""))
        client.expect_events((WatchKind.CHANGED, "/a"), (WatchKind.CHILDREN_CHANGED, "/a"))

    def test_empty_multi_is_ok(self, client: Client) -> None:
        assert client.multi().is_ok
