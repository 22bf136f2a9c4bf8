"""The embedded engine of the coordination store: one SQLite file, one broker, watches in the process.

The loop only queues; one thread takes all that is queued, carries it out in one transaction, makes that durable and
posts the results. So a commit costs the loop nothing and many operations share one fsync.
"""

import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ottla.coordination.embedded_file import lock_for_writing, open_for_writing
from ottla.coordination.embedded_tree import EmbeddedTree
from ottla.coordination.store import (
    Code,
    Create,
    Delete,
    OnDone,
    Post,
    Result,
    SessionListener,
    SessionState,
    SetValue,
    StoreOpenError,
    Watch,
    WatchEvent,
    Write,
    check_path,
    check_write,
)
from ottla.coordination.watches import WatchTable
from ottla.core.clock import Clock, wall_clock_ms

# More than these are refused as CONNECTION_LOST: a caller that never waits for answers must not fill the memory.
QUEUED_CALLS_MAX = 65_536
GROUP_CALLS_MAX = 1_024
PROBE_SECONDS = 1.0  # how often a store that failed (disk full) looks whether it works again


class _Call(NamedTuple):
    """One operation on its way to the thread."""

    session_id: int
    path: str
    action: Callable[[EmbeddedTree], Result]
    on_done: OnDone
    watch: Watch | None = None
    watches_children: bool = False
    watches_absence: bool = False


class _Expire(NamedTuple):
    """End the session as ZooKeeper would, and begin another."""


class _Close(NamedTuple):
    """End the session and the thread."""


class EmbeddedStore:
    """A `Store` on a file. Owned by the loop's thread, which opens and closes it.

    Limits: one process at a time may have it open (`StoreOpenError`); others may read the file (`StoreReader`).
    If the disk fails, operations end as CONNECTION_LOST, and listeners are called with SUSPENDED until it works again.
    """

    def __init__(self, path: str, *, post: Post, clock: Clock = wall_clock_ms) -> None:
        self._lock_descriptor = lock_for_writing(path)
        try:
            self._connection = open_for_writing(path)
        except StoreOpenError:
            os.close(self._lock_descriptor)
            raise
        self._post = post
        self._clock = clock
        self._tree = EmbeddedTree(self._connection)
        # Owned by the loop.
        self._session_id = self._tree.session_id + 1  # the thread begins it before the first operation
        self._listeners: list[SessionListener] = []
        self._is_closed = False
        self._gathered: list[_Call] = []  # called in this turn of the loop
        # Owned by the thread.
        self._watches = WatchTable()
        self._live_session_id = 0
        self._is_suspended = False
        self._queue: queue.SimpleQueue[_Call | _Expire | _Close] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="coordination-store", daemon=True)
        self._thread.start()

    @property
    def session_id(self) -> int:
        return self._session_id

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def create(
        self, path: str, value: bytes, on_done: OnDone, *, ephemeral: bool = False, sequential: bool = False
    ) -> None:
        self._write(Create(path, value, ephemeral, sequential), on_done)

    def set(self, path: str, value: bytes, on_done: OnDone, *, version: int) -> None:
        self._write(SetValue(path, value, version), on_done)

    def delete(self, path: str, on_done: OnDone, *, version: int) -> None:
        self._write(Delete(path, version), on_done)

    def get(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        check_path(path)
        self._submit(_Call(self._session_id, path, lambda tree: tree.get(path), on_done, watch))

    def exists(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        check_path(path)
        call = _Call(self._session_id, path, lambda tree: tree.exists(path), on_done, watch, watches_absence=True)
        self._submit(call)

    def children(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        check_path(path)
        call = _Call(self._session_id, path, lambda tree: tree.children(path), on_done, watch, watches_children=True)
        self._submit(call)

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        for operation in writes:
            check_write(operation)
        kept = tuple(writes)
        self._submit(_Call(self._session_id, "", lambda tree: tree.multi(kept), on_done))

    def expire_session(self) -> None:
        """Lose the session, as a broker does that ZooKeeper hasn't heard for too long; for tests and simulations."""
        self._hand_over()
        self._queue.put(_Expire())

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._hand_over()
        self._queue.put(_Close())
        self._thread.join()

    def _write(self, operation: Write, on_done: OnDone) -> None:
        check_write(operation)
        self._submit(_Call(self._session_id, operation.path, lambda tree: tree.write(operation), on_done))

    def _submit(self, call: _Call) -> None:
        if self._is_closed:
            self._post(partial(call.on_done, Result(Code.SESSION_EXPIRED, call.path, detail="the store is closed")))
        elif self._queue.qsize() + len(self._gathered) >= QUEUED_CALLS_MAX:
            detail = f"{QUEUED_CALLS_MAX} operations are already waiting"
            self._post(partial(call.on_done, Result(Code.CONNECTION_LOST, call.path, detail=detail)))
        else:
            if not self._gathered:
                self._post(self._hand_over)
            self._gathered.append(call)

    def _hand_over(self) -> None:
        """Give the thread all that this turn of the loop has called, so that it becomes one transaction.

        Handed over one by one, the first would be committed alone, and thread and loop would take turns at every call.
        """
        gathered, self._gathered = self._gathered, []
        for call in gathered:
            self._queue.put(call)

    # Everything below runs on the thread, except the two that are posted: _notify and _report_death.

    def _run(self) -> None:
        is_finished = False
        try:
            self._serve()
            is_finished = True
        finally:
            os.close(self._lock_descriptor)
            if not is_finished:
                self._post(self._report_death)

    def _report_death(self) -> None:
        self._is_closed = True
        raise RuntimeError("the thread of the coordination store died of a bug; its traceback is on stderr")

    def _serve(self) -> None:
        self._ensure_session()
        while True:
            try:
                item = self._queue.get(timeout=PROBE_SECONDS if self._is_suspended else None)
            except queue.Empty:
                self._probe()
                continue
            group: list[_Call] = []
            while isinstance(item, _Call):
                group.append(item)
                if len(group) == GROUP_CALLS_MAX or self._queue.empty():
                    break
                item = self._queue.get()
            if group:
                self._carry_out(group)
            if isinstance(item, _Expire):
                self._expire()
            elif isinstance(item, _Close):
                self._transact(self._tree.end_sessions)  # if it fails, the next opening does it
                self._connection.close()
                return

    def _carry_out(self, group: list[_Call]) -> None:
        if not self._ensure_session():
            self._fail(group, "the session could not be begun")
            return
        tree = self._tree
        outcomes: list[tuple[_Call, Result, list[WatchEvent]]] = []

        def act() -> None:
            for call in group:
                if call.session_id != self._live_session_id:
                    outcomes.append((call, Result(Code.SESSION_EXPIRED, call.path), []))
                    continue
                result = call.action(tree)
                outcomes.append((call, result, tree.changes))
                tree.changes = []

        failure = self._transact(act)
        if failure:
            self._fail(group, failure)
            return
        post = self._post
        for call, result, changes in outcomes:
            self._set_watch(call, result)
            post(partial(call.on_done, result))
            self._fire(changes)

    def _set_watch(self, call: _Call, result: Result) -> None:
        watch = call.watch
        if watch is None or not (result.is_ok or (call.watches_absence and result.code == Code.NO_NODE)):
            return
        if call.watches_children:
            self._watches.watch_children(call.path, watch)
        else:
            self._watches.watch_node(call.path, watch)

    def _fire(self, changes: list[WatchEvent]) -> None:
        for change in changes:
            for watch, event in self._watches.fire(change):
                self._post(partial(watch, event))

    def _fail(self, group: list[_Call], detail: str) -> None:
        for call in group:
            self._post(partial(call.on_done, Result(Code.CONNECTION_LOST, call.path, detail=detail)))

    def _expire(self) -> None:
        self._watches.clear()
        self._live_session_id = 0
        self._post(partial(self._notify, SessionState.EXPIRED))
        self._ensure_session()

    def _ensure_session(self) -> bool:
        if self._live_session_id:
            return True
        if self._transact(self._tree.begin_session):
            return False
        self._live_session_id = self._tree.session_id
        self._tree.changes = []  # nobody can watch yet
        self._post(partial(self._notify, SessionState.CONNECTED, self._live_session_id))
        return True

    def _probe(self) -> None:
        if self._ensure_session():
            self._transact(self._tree.save_zxid)

    def _transact(self, act: Callable[[], object]) -> str:
        """Do it in one durable transaction; gives what went wrong, or nothing."""
        tree = self._tree
        connection = self._connection
        counters_before = (tree.zxid, tree.session_id)
        rows_before = connection.total_changes
        tree.now_ms = self._clock()
        try:
            connection.execute("BEGIN")
            act()
            if tree.zxid != counters_before[0]:
                tree.save_zxid()
            connection.execute("COMMIT")
        except (sqlite3.ProgrammingError, sqlite3.IntegrityError, sqlite3.InterfaceError):
            raise  # a bug in a statement, no failure of the disk
        except sqlite3.Error as error:
            tree.zxid, tree.session_id = counters_before
            tree.changes = []
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if not self._is_suspended:
                self._is_suspended = True
                self._post(partial(self._notify, SessionState.SUSPENDED))
            return f"the coordination store failed: {error}"
        if self._is_suspended and connection.total_changes != rows_before:  # reading still works on a full disk
            self._is_suspended = False
            if self._live_session_id:
                self._post(partial(self._notify, SessionState.CONNECTED, self._live_session_id))
        return ""

    def _notify(self, state: SessionState, session_id: int = 0) -> None:
        if state == SessionState.CONNECTED:
            self._session_id = session_id
        for listener in self._listeners:
            listener(state)
