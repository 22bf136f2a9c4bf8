"""The server's side of the engine in memory: one tree, the sessions of its clients, and the faults that it can have.

It stands for a ZooKeeper ensemble in tests and simulations, and runs on its owner's loop alone: no thread, no clock of
the machine. `MemoryStore` (memory.py) is the client's side; they exchange messages over a `Connection`.
"""

from collections.abc import Callable
from functools import partial

from ottla.coordination.memory_connection import Connection, Courier, EnsembleLoop, LoopCourier, Reach, TimerHandle
from ottla.coordination.memory_messages import ClientSide, Operation, SeenWatches
from ottla.coordination.memory_tree import NO_ZXID, MemoryTree
from ottla.coordination.store import NO_OWNER, Result, WatchEvent, WatchKind
from ottla.coordination.watches import WatchTable
from ottla.core.clock import Clock

SESSION_TIMEOUT_MS = 18_000  # Kafka's zookeeper.session.timeout.ms
TIMER_SLACK_S = 0.001  # clocks that drift round: a timer may come a little early


class _Session:
    """One session; it outlives its connections, and ends when its client was silent for `timeout_s`."""

    __slots__ = ("connection", "heard_at", "session_id", "timeout_s", "timer", "watches")

    def __init__(self, session_id: int, timeout_s: float) -> None:
        self.session_id = session_id
        self.timeout_s = timeout_s
        self.connection: Connection | None = None
        self.heard_at = 0.0
        self.timer: TimerHandle | None = None
        self.watches = WatchTable()  # holds `notify` for whatever the client watches

    def notify(self, event: WatchEvent) -> None:
        # Without a connection it is lost here, and found again when the client compares its watches.
        if self.connection is not None:
            self.connection.to_client.send(partial(self.connection.client.on_watch, event))


class MemoryEnsemble:
    """A tree for several clients. Owned by a test or a simulation, which injects faults by its methods.

    A client process is named by whoever opens its store; a cut or a stall holds for every store of that name.
    `on_change` is called with each change of a node and the node's value after it, for who records a run.
    """

    def __init__(
        self, loop: EnsembleLoop, *, clock: Clock | None = None, session_timeout_ms: int = SESSION_TIMEOUT_MS
    ) -> None:
        self._loop = loop
        self._clock: Clock = clock or (lambda: round(loop.time() * 1000))
        self.session_timeout_ms = session_timeout_ms
        self.tree = MemoryTree()
        self.on_change: Callable[[WatchEvent, bytes], None] | None = None
        self._courier = LoopCourier(loop)
        self._sessions: dict[int, _Session] = {}
        self._last_session_id = NO_OWNER
        self._reaches: dict[str, Reach] = {}
        self._is_stopped = False
        self._answers_to_lose: dict[str, int] = {}

    @property
    def session_ids(self) -> tuple[int, ...]:
        """The sessions that live, oldest first."""
        return tuple(self._sessions)

    # Faults

    def expire(self, session_id: int) -> None:
        """End a session as if its client had been silent for too long. One that is over already stays so."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._end(session)
            if session.connection is not None:
                session.connection.break_off()

    def lose_answers(self, count: int, *, client: str = "") -> None:
        """Lose the next `count` answers of writes, of one client or of any: each is applied, its connection ends."""
        self._answers_to_lose[client] = self._answers_to_lose.get(client, 0) + count

    def cut(self, client: str) -> None:
        """End the client's connections, which it notices at once, and refuse others until `restore`."""
        self._reach(client).cut()

    def stall(self, client: str) -> None:
        """Hold all messages between the client and the ensemble until `restore`: only time shows it."""
        self._reach(client).is_stalled = True

    def restore(self, client: str) -> None:
        """End a cut or a stall; what was held is carried on, where its connection was not given up."""
        self._reach(client).restore()

    def stop(self) -> None:
        """Lose the whole ensemble: connections end and are refused, sessions stand still."""
        self._is_stopped = True
        for reach in self._reaches.values():
            reach.break_connections()
        for session in self._sessions.values():
            session.connection = None
            if session.timer is not None:
                session.timer.cancel()

    def start(self) -> None:
        """Have it back: as after ZooKeeper's own election, every session has its whole timeout again."""
        self._is_stopped = False
        now = self._loop.time()
        for session in self._sessions.values():
            session.heard_at = now
            self._set_timer(session)

    # What clients send; each call runs on the ensemble's loop. `connect` is called by the client itself.

    def connect(
        self,
        name: str,
        client: ClientSide,
        *,
        to_ensemble: Courier | None,
        to_client: Courier,
        on_lost: Callable[[Connection], None],
    ) -> Connection:
        """A new connection for the process `name`; where it can't be had, the client hears by `on_lost`."""
        reach = self._reach(name)
        connection = Connection(
            name, reach, client, to_ensemble=to_ensemble or self._courier, to_client=to_client, on_lost=on_lost
        )
        if reach.is_cut or self._is_stopped:
            connection.break_off()
        return connection

    def attach(self, connection: Connection, session_id: int, timeout_s: float, seen: SeenWatches) -> None:
        """Take the connection on for a session, or for a new one if the client has none."""
        client, send = connection.client, connection.to_client.send
        if session_id == NO_OWNER:
            self._last_session_id += 1
            session = _Session(self._last_session_id, timeout_s)
            self._sessions[session.session_id] = session
        elif session_id in self._sessions:
            session = self._sessions[session_id]
        else:
            send(client.on_expired)
            return
        if session.connection is not None:
            session.connection.close()  # what the client sent there and has given up must not come later
        session.connection = connection
        session.heard_at = self._loop.time()
        if session.timer is None:
            self._set_timer(session)
        connection.session_id = session.session_id
        send(partial(client.on_attached, session.session_id))
        self._compare(session, seen)

    def carry_out(self, connection: Connection, operation: Operation) -> None:
        session = self._session_of(connection)
        if session is None:
            return
        tree = self.tree
        tree.session_id = session.session_id
        tree.now_ms = self._clock()
        result = operation.action(tree)
        seen_zxid = self._set_watch(session, operation, result)
        if operation.is_write and self._loses_answer(connection.name):
            connection.lose_answers()
        else:
            connection.to_client.send(partial(connection.client.on_answer, result, seen_zxid))
        self._fire()

    def ping(self, connection: Connection) -> None:
        if self._session_of(connection) is not None:
            connection.to_client.send(connection.client.on_pong)

    def close(self, connection: Connection) -> None:
        """End the session as its client wishes."""
        session = self._session_of(connection)
        if session is not None:
            self._end(session)
            connection.to_client.send(connection.client.on_closed)

    def _session_of(self, connection: Connection) -> _Session | None:
        """The session that still uses this connection; it was heard now."""
        session = self._sessions.get(connection.session_id)
        if session is None or session.connection is not connection:
            return None
        session.heard_at = self._loop.time()
        return session

    def _set_watch(self, session: _Session, operation: Operation, result: Result) -> int:
        if not operation.sets_watch(result):
            return NO_ZXID
        path = operation.path
        if operation.watches_children:
            session.watches.watch_children(path, session.notify)
            return self.tree.pzxid(path)
        session.watches.watch_node(path, session.notify)
        return self.tree.mzxid(path)

    def _compare(self, session: _Session, seen: SeenWatches) -> None:
        """Fire the watches that missed a change, and set the others anew."""
        tree, watches = self.tree, session.watches
        watches.clear()
        for path, seen_zxid in seen.nodes.items():
            zxid = tree.mzxid(path)
            if zxid == seen_zxid:
                watches.watch_node(path, session.notify)
            else:
                came = WatchKind.CREATED if seen_zxid == NO_ZXID else WatchKind.CHANGED
                session.notify(WatchEvent(WatchKind.DELETED if zxid == NO_ZXID else came, path))
        for path, seen_zxid in seen.children.items():
            zxid = tree.pzxid(path)
            if zxid == seen_zxid:
                watches.watch_children(path, session.notify)
            else:
                kind = WatchKind.DELETED if zxid == NO_ZXID else WatchKind.CHILDREN_CHANGED
                session.notify(WatchEvent(kind, path))

    def _fire(self) -> None:
        changes, self.tree.changes = self.tree.changes, []
        for change in changes:
            for session in self._sessions.values():
                for watch, event in session.watches.fire(change):
                    watch(event)
            if self.on_change is not None:
                self.on_change(change, self.tree.get(change.path).value)

    def _end(self, session: _Session) -> None:
        del self._sessions[session.session_id]
        if session.timer is not None:
            session.timer.cancel()
        self.tree.now_ms = self._clock()
        self.tree.end_session(session.session_id)
        self._fire()

    def _set_timer(self, session: _Session) -> None:
        session.timer = self._loop.call_at(session.heard_at + session.timeout_s, partial(self._on_timer, session))

    def _on_timer(self, session: _Session) -> None:
        # A message only notes when it came; the timer looks at that when it fires.
        if self._loop.time() + TIMER_SLACK_S < session.heard_at + session.timeout_s:
            self._set_timer(session)
        else:
            self.expire(session.session_id)

    def _loses_answer(self, client: str) -> bool:
        for name in (client, ""):
            left = self._answers_to_lose.get(name, 0)
            if left:
                self._answers_to_lose[name] = left - 1
                return True
        return False

    def _reach(self, client: str) -> Reach:
        return self._reaches.setdefault(client, Reach())
