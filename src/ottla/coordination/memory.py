"""The engine of the coordination store in memory, client's side: one `MemoryStore` for each process of a simulation.

It does what a ZooKeeper client does: keeps a session alive by pings, connects anew with the same session, and says
CONNECTION_LOST of what it has no answer for. All its waiting is timers on the loop of its process.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ottla.coordination.memory_connection import Connection, Courier, EnsembleLoop, LoopCourier, TimerHandle
from ottla.coordination.memory_ensemble import TIMER_SLACK_S, MemoryEnsemble
from ottla.coordination.memory_messages import Operation, SeenWatches
from ottla.coordination.store import (
    NO_OWNER,
    Code,
    Create,
    Delete,
    OnDone,
    Result,
    SessionListener,
    SessionState,
    SetValue,
    Watch,
    WatchEvent,
    WatchKind,
    Write,
    check_path,
    check_write,
)
from ottla.coordination.watches import WatchTable

# More than these are refused as CONNECTION_LOST, as by the embedded engine.
OPEN_OPERATIONS_MAX = 65_536
RECONNECT_SECONDS = 0.2


class MemoryStore:
    """A `Store` on a `MemoryEnsemble`. Owned by one process: all its callbacks run on `loop`.

    `name` is what faults of the ensemble call the process; a process that starts again opens a new store under the
    same name, while the session of the one before it lives on until its timeout. Couriers carry the messages of each
    direction; without them they come on the receiver's next turn.
    """

    def __init__(
        self,
        ensemble: MemoryEnsemble,
        loop: EnsembleLoop,
        *,
        name: str = "client",
        to_ensemble: Courier | None = None,
        to_client: Courier | None = None,
        session_timeout_ms: int | None = None,
    ) -> None:
        self._ensemble = ensemble
        self._loop = loop
        self._name = name
        self._to_ensemble = to_ensemble
        self._to_client: Courier = to_client or LoopCourier(loop)
        self._timeout_s = (session_timeout_ms or ensemble.session_timeout_ms) / 1000
        self._session_id = NO_OWNER
        self._state: SessionState | None = None  # what listeners have heard last
        self._listeners: list[SessionListener] = []
        self._open: deque[Operation] = deque()  # sent and not answered; before the first session not sent either
        self._watches = WatchTable()
        self._seen = SeenWatches({}, {})
        self._connection: Connection | None = None
        self._is_attached = False
        self._is_closed = False
        self._heard_at = 0.0
        self._timers: dict[str, TimerHandle] = {}
        self._connect()

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
        self._submit(Operation(path, lambda tree: tree.get(path), on_done, watch=watch))

    def exists(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        check_path(path)
        self._submit(Operation(path, lambda tree: tree.exists(path), on_done, watch=watch, watches_absence=True))

    def children(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        check_path(path)
        self._submit(Operation(path, lambda tree: tree.children(path), on_done, watch=watch, watches_children=True))

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        for operation in writes:
            check_write(operation)
        kept = tuple(writes)
        self._submit(Operation("", lambda tree: tree.multi(kept), on_done, is_write=True))

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._watches.clear()
        self._stop_timer("ping")
        self._stop_timer("reconnect")
        if self._is_attached and self._connection is not None:
            # What was called before is still answered; `on_closed` comes behind that.
            self._connection.to_ensemble.send(partial(self._ensemble.close, self._connection))
        else:
            self._give_up(Code.SESSION_EXPIRED, "the store is closed")

    # Messages of the ensemble, on the connection that there is now: of any other none arrives.

    def on_attached(self, session_id: int) -> None:
        self._is_attached = True
        self._heard()
        self._session_id = session_id
        self._ping()
        for operation in self._open:  # from before the first session
            self._send(operation)
        self._notify(SessionState.CONNECTED)

    def on_expired(self) -> None:
        self._drop_connection()
        self._watches.clear()
        self._seen = SeenWatches({}, {})
        self._notify(SessionState.EXPIRED)
        if not self._is_closed:  # by a listener
            self._connect()

    def on_answer(self, result: Result, seen_zxid: int) -> None:
        self._heard()
        operation = self._open.popleft()
        if operation.watch is not None and operation.sets_watch(result) and not self._is_closed:
            if operation.watches_children:
                self._watches.watch_children(operation.path, operation.watch)
                self._seen.children[operation.path] = seen_zxid
            else:
                self._watches.watch_node(operation.path, operation.watch)
                self._seen.nodes[operation.path] = seen_zxid
        operation.on_done(result)

    def on_watch(self, event: WatchEvent) -> None:
        self._heard()
        if event.kind != WatchKind.CHILDREN_CHANGED:
            self._seen.nodes.pop(event.path, None)
        if event.kind in (WatchKind.CHILDREN_CHANGED, WatchKind.DELETED):
            self._seen.children.pop(event.path, None)
        for watch in self._watches.take(event):
            if not self._is_closed:  # by another watch
                watch(event)

    def on_pong(self) -> None:
        self._heard()

    def on_closed(self) -> None:
        self._drop_connection()

    # Connection and session

    def _connect(self) -> None:
        self._connection = connection = self._ensemble.connect(
            self._name, self, to_ensemble=self._to_ensemble, to_client=self._to_client, on_lost=self._on_lost
        )
        self._heard_at = self._loop.time()
        self._set_timer("silence", self._heard_at + self._silence_max_s, self._check_silence)
        session_id = NO_OWNER if self._state == SessionState.EXPIRED else self._session_id
        seen = SeenWatches(dict(self._seen.nodes), dict(self._seen.children))
        connection.to_ensemble.send(partial(self._ensemble.attach, connection, session_id, self._timeout_s, seen))

    def _on_lost(self, connection: Connection) -> None:
        if connection is self._connection:
            self._lose("the connection to the coordination store was lost")

    @property
    def _silence_max_s(self) -> float:
        """How long the ensemble may be silent: two thirds of the session, so that one is left for another try."""
        return self._timeout_s * 2 / 3 if self._is_attached else self._timeout_s / 3

    def _heard(self) -> None:
        self._heard_at = self._loop.time()

    def _check_silence(self) -> None:
        deadline = self._heard_at + self._silence_max_s
        if self._loop.time() + TIMER_SLACK_S < deadline:
            self._set_timer("silence", deadline, self._check_silence)
        else:
            self._lose("the coordination store has not answered in time")

    def _ping(self) -> None:
        connection = self._connection
        assert connection is not None
        connection.to_ensemble.send(partial(self._ensemble.ping, connection))
        self._set_timer("ping", self._loop.time() + self._timeout_s / 3, self._ping)

    def _lose(self, detail: str) -> None:
        was_attached = self._is_attached
        self._give_up(Code.CONNECTION_LOST, detail)
        if self._state in (None, SessionState.CONNECTED):
            self._notify(SessionState.SUSPENDED)
        if self._is_closed:
            return  # the session ends by its timeout
        # A lost connection is replaced at once; where none can be had, the next try is later.
        if was_attached:
            self._connect()
        else:
            self._set_timer("reconnect", self._loop.time() + RECONNECT_SECONDS, self._connect)

    def _give_up(self, code: Code, detail: str) -> None:
        """Drop the connection, and end what is open."""
        self._drop_connection()
        operations, self._open = self._open, deque()
        for operation in operations:
            self._refuse(operation, code, detail)

    def _drop_connection(self) -> None:
        self._stop_timer("silence")
        self._stop_timer("ping")
        self._is_attached = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _notify(self, state: SessionState) -> None:
        self._state = state
        for listener in self._listeners:
            if not self._is_closed:  # by another listener
                listener(state)

    # Operations

    def _write(self, operation: Write, on_done: OnDone) -> None:
        check_write(operation)
        self._submit(Operation(operation.path, lambda tree: tree.write(operation), on_done, is_write=True))

    def _submit(self, operation: Operation) -> None:
        if self._is_closed:
            self._refuse(operation, Code.SESSION_EXPIRED, "the store is closed")
        elif self._state == SessionState.EXPIRED:
            self._refuse(operation, Code.SESSION_EXPIRED, "the next session has not begun")
        elif self._state == SessionState.SUSPENDED:
            self._refuse(operation, Code.CONNECTION_LOST, "there is no connection to the coordination store")
        elif len(self._open) >= OPEN_OPERATIONS_MAX:
            self._refuse(operation, Code.CONNECTION_LOST, f"{OPEN_OPERATIONS_MAX} operations are already waiting")
        else:
            self._open.append(operation)
            if self._is_attached:
                self._send(operation)

    def _send(self, operation: Operation) -> None:
        connection = self._connection
        assert connection is not None
        connection.to_ensemble.send(partial(self._ensemble.carry_out, connection, operation))

    def _refuse(self, operation: Operation, code: Code, detail: str) -> None:
        self._loop.call_soon(partial(operation.on_done, Result(code, operation.path, detail=detail)))

    def _set_timer(self, name: str, when: float, callback: Callable[[], None]) -> None:
        self._stop_timer(name)
        self._timers[name] = self._loop.call_at(when, callback)

    def _stop_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
