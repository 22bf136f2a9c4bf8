"""The sweep that closes connections: idle ones, frames that don't get finished, output that nobody takes.

One timer for all connections, and none when there are no connections. Its ticks are the network's coarse clock: a
connection only notes the tick it was last active at. Each tick looks at the connections with something unfinished,
and at those whose idle time could end now; an idle connection is looked at about once in its idle time.
"""

from typing import TYPE_CHECKING

from ottla.net.connection import Connection
from ottla.net.environment import Environment

if TYPE_CHECKING:
    from asyncio import TimerHandle

# A frame has its deadline, and on top of it the time that its bytes so far take at the slowest speed we bear: a large
# frame on a thin line may finish, one byte a second may not. When others wait for the memory, the deadline is shorter.
_SLOWEST_BYTES_PER_MS = 32
_SLOWEST_BYTES_PER_MS_WHEN_TIGHT = 1024
_TIGHT_DEADLINE_DIVISOR = 6


class Expiry:
    """Owned by the server; knows every open connection between `add` and `remove`."""

    __slots__ = ("_due", "_due_by_connection", "_environment", "_idle_ticks", "_interval_ms", "_stall_ticks", "_timer")

    def __init__(self, environment: Environment) -> None:
        limits = environment.limits
        self._environment = environment
        self._interval_ms = limits.sweep_interval_ms
        self._idle_ticks = self._ticks(limits.connections_max_idle_ms) if limits.connections_max_idle_ms > 0 else 0
        self._stall_ticks = self._ticks(limits.write_stall_ms)
        self._due: dict[int, set[Connection]] = {}  # by the tick at which their idle time could end
        self._due_by_connection: dict[Connection, int] = {}
        self._timer: TimerHandle | None = None

    def add(self, connection: Connection) -> None:
        self._put(connection, self._environment.tick + self._idle_ticks)
        if self._timer is None:
            self._arm()

    def remove(self, connection: Connection) -> None:
        due = self._due_by_connection.pop(connection)
        bucket = self._due.get(due)
        if bucket is not None:
            bucket.discard(connection)
            if not bucket:
                del self._due[due]

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ticks(self, duration_ms: int) -> int:
        # One more than the quotient: the first tick comes anywhere inside its interval.
        return duration_ms // self._interval_ms + 1

    def _put(self, connection: Connection, due: int) -> None:
        self._due_by_connection[connection] = due
        if self._idle_ticks:
            self._due.setdefault(due, set()).add(connection)

    def _arm(self) -> None:
        self._timer = self._environment.loop.call_later(self._interval_ms / 1000, self._sweep)

    def _sweep(self) -> None:
        environment = self._environment
        environment.tick += 1
        self._timer = None
        if environment.watched:
            self._check_watched()
        self._check_idle()
        environment.log.start_interval()
        environment.pool.trim()
        if self._due_by_connection:
            self._arm()
        else:
            environment.pool.clear()

    def _check_watched(self) -> None:
        watched = self._environment.watched
        self._environment.watched = still_watched = []
        for connection in watched:
            if connection.is_closed:
                continue
            reason = self._find_overdue(connection)
            if reason is not None:
                self._environment.log.info("%s: %s; closing the connection", connection.address, reason)
                connection.close(reason)
            elif connection.unfinished_frame_bytes or connection.is_busy:
                still_watched.append(connection)
            else:
                connection.unwatch()

    def _find_overdue(self, connection: Connection) -> str | None:
        environment = self._environment
        tick = environment.tick
        stuck_since = connection.output_stuck_since_tick
        if stuck_since is not None and tick - stuck_since >= self._stall_ticks:
            return "output not taken"
        ended_since = connection.ended_since_tick
        if ended_since is not None and tick - ended_since >= self._ticks(environment.limits.frame_deadline_ms):
            return "peer gone before its requests could be started"
        received_bytes = connection.unfinished_frame_bytes
        if received_bytes:
            deadline_ms = environment.limits.frame_deadline_ms
            if environment.budget.waiting_count:
                allowed_ms = deadline_ms // _TIGHT_DEADLINE_DIVISOR + received_bytes // _SLOWEST_BYTES_PER_MS_WHEN_TIGHT
            else:
                allowed_ms = deadline_ms + received_bytes // _SLOWEST_BYTES_PER_MS
            if tick - connection.frame_started_tick >= self._ticks(allowed_ms):
                return "frame deadline"
        return None

    def _check_idle(self) -> None:
        tick = self._environment.tick
        for connection in self._due.pop(tick, ()):
            if connection.is_busy:
                self._put(connection, tick + self._idle_ticks)
                continue
            due = connection.last_active_tick + self._idle_ticks
            if due > tick:
                self._put(connection, due)
            else:
                connection.close("idle")
