"""The link to one broker: opens a wire when there is something to send, times out, and waits before it reconnects.

It uses the clock and the timers of its loop; `ClientLoop.open` opens sockets. Its owner decides which broker a request
goes to.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from ottla.core.types import BrokerId
from ottla.links.addresses import Address
from ottla.links.backoff import Backoff
from ottla.links.errors import ClientError, ConnectionFailed, RequestTimedOut
from ottla.links.settings import NetworkSettings
from ottla.links.wire import Channel, InFlightRequest, Wire, WireState

_NOTHING = memoryview(b"")


class Timer(Protocol):
    """A timer; cancelling one that has run does nothing."""

    def cancel(self) -> None: ...


class ClientLoop(Protocol):
    """The loop that a link lives in: its clock, its timers, its sockets."""

    def now_ms(self) -> int: ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer: ...

    def call_soon(self, callback: Callable[[], None]) -> None: ...

    def open(self, address: Address, wire: Wire) -> Channel:
        """Begin to connect; the wire learns the result later."""
        ...


class Link:
    """One broker at one address; at most one wire at a time. Its owner creates and closes it."""

    __slots__ = (
        "_failures",
        "_is_closed",
        "_loop",
        "_last_used_ms",
        "_on_lost",
        "_queue",
        "_reconnect",
        "_settings",
        "_setup_timeout",
        "_setup_timer",
        "_throttle_timer",
        "_watch_at_ms",
        "_watch_timer",
        "_wire",
        "address",
        "broker_id",
        "client_id",
        "retry_at_ms",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        address: Address,
        *,
        loop: ClientLoop,
        client_id: str,
        settings: NetworkSettings,
        on_lost: Callable[["Link", list[InFlightRequest], list[InFlightRequest], ClientError], None],
        random: Random | None = None,
    ) -> None:
        """`on_lost(link, sent, queued, reason)` gets the requests of a lost connection and must call them back."""
        self.broker_id = broker_id
        self.address = address
        self.client_id = client_id
        self.retry_at_ms = 0
        self._loop = loop
        self._settings = settings
        self._reconnect = Backoff(
            first_ms=settings.reconnect_backoff_ms, max_ms=settings.reconnect_backoff_max_ms, random=random
        )
        # Each failure makes the timeout of an attempt longer, like the wait between two attempts.
        self._setup_timeout = Backoff(
            first_ms=settings.setup_timeout_ms, max_ms=settings.setup_timeout_max_ms, random=random
        )
        self._on_lost = on_lost
        self._wire: Wire | None = None
        self._queue: deque[InFlightRequest] = deque()
        self._failures = 0
        self._is_closed = False
        self._last_used_ms = 0
        self._setup_timer: Timer | None = None  # for an attempt to connect, or until the next one
        self._throttle_timer: Timer | None = None
        self._watch_timer: Timer | None = None
        self._watch_at_ms = 0

    @property
    def load(self) -> int:
        """How many requests wait for their answer or to be sent."""
        return len(self._queue) + (len(self._wire.in_flight) if self._wire is not None else 0)

    @property
    def is_ready(self) -> bool:
        return self._wire is not None and self._wire.state is WireState.READY

    @property
    def is_throttled(self) -> bool:
        return self._throttle_timer is not None

    @property
    def is_opening(self) -> bool:
        return self._wire is not None and not self.is_ready

    def versions_of(self, api_key: int) -> tuple[int, int] | None:
        return self._wire.versions.get(api_key) if self._wire is not None and self.is_ready else None

    def send(self, request: InFlightRequest) -> None:
        """Send it, now or when connected; its `on_frame` is called exactly once, never within this call."""
        assert not self._is_closed
        now_ms = self._loop.now_ms()
        request.broker_id = self.broker_id
        request.deadline_ms = now_ms + request.timeout_ms
        self._watch(request.deadline_ms, now_ms)
        self._queue.append(request)
        if self.is_ready:
            self._send_queued(now_ms)
        elif self._wire is None and self._setup_timer is None:
            if self.retry_at_ms <= now_ms:
                self._open()
            else:
                self._setup_timer = self._loop.call_later(self.retry_at_ms - now_ms, self._open)

    def throttle(self, delay_ms: int) -> None:
        """The broker asked for a pause: send nothing until it is over; the pause does not count against timeouts."""
        if delay_ms <= 0 or self._is_closed:
            return
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._throttle_timer = self._loop.call_later(delay_ms, self._resume)

    def close(self, reason: ClientError) -> None:
        """Close the connection and fail all requests."""
        if not self._is_closed:
            self._is_closed = True
            self._drop(reason)

    # Connecting.

    def _open(self) -> None:
        self._setup_timer = None
        if self._wire is not None or not self._queue:
            return
        self._wire = wire = Wire(
            str(self.address), client_id=self.client_id, on_ready=self._ready, on_lost=self._wire_lost
        )
        self._setup_timer = self._loop.call_later(self._setup_timeout.delay_ms(self._failures), self._setup_timed_out)
        wire.attach(self._loop.open(self.address, wire))

    def _setup_timed_out(self) -> None:
        self._setup_timer = None
        if self._wire is not None and not self.is_ready:
            self._wire.broken(f"not reached: still {self._wire.state.value} after the timeout")

    def _ready(self) -> None:
        self._cancel_setup()
        self._failures = 0
        now_ms = self._loop.now_ms()
        self._last_used_ms = now_ms
        if self._settings.connections_max_idle_ms >= 0:
            self._watch(now_ms + self._settings.connections_max_idle_ms, now_ms)
        self._send_queued(now_ms)

    def _wire_lost(self, reason: ClientError) -> None:
        self._drop(reason)

    def _drop(self, reason: ClientError) -> None:
        """The wire is closed, or is closed now: plan the next attempt, then report the lost requests."""
        wire, self._wire = self._wire, None
        sent: list[InFlightRequest] = []
        if wire is not None:
            wire.close()
            sent = list(wire.in_flight)
            wire.in_flight.clear()
        self._cancel_setup()
        if self._throttle_timer is not None and self._is_closed:
            self._throttle_timer.cancel()
            self._throttle_timer = None
        if self._watch_timer is not None:
            self._watch_timer.cancel()
            self._watch_timer = None
        self.retry_at_ms = self._loop.now_ms() + self._reconnect.delay_ms(self._failures)
        self._failures += 1
        queued = list(self._queue)
        self._queue.clear()
        self._on_lost(self, sent, queued, reason)

    def _cancel_setup(self) -> None:
        if self._setup_timer is not None:
            self._setup_timer.cancel()
            self._setup_timer = None

    # Sending.

    def _send_queued(self, now_ms: int) -> None:
        wire = self._wire
        if self._throttle_timer is not None or wire is None:
            return
        self._last_used_ms = now_ms
        queue = self._queue
        while queue and wire.state is WireState.READY:
            request = queue.popleft()
            version = wire.version_for(request.api_key, request.versions)
            if not isinstance(version, int):
                self._fail_soon(request, version)
                continue
            request.version = version
            wire.send(request)
            if not request.expects_response:
                self._loop.call_soon(lambda request=request: request.on_frame(request.version, _NOTHING))  # type: ignore[misc]

    def _resume(self) -> None:
        self._throttle_timer = None
        now_ms = self._loop.now_ms()
        for request in self._queue:
            request.deadline_ms = max(request.deadline_ms, now_ms + request.timeout_ms)
            self._watch(request.deadline_ms, now_ms)
        if self.is_ready:
            self._send_queued(now_ms)

    def _fail_soon(self, request: InFlightRequest, error: ClientError) -> None:
        self._loop.call_soon(lambda: request.on_frame(request.version, error))

    # Timeouts: one timer for the earliest deadline; it checks all of them when it fires.

    def _watch(self, at_ms: int, now_ms: int) -> None:
        if self._watch_timer is not None:
            if self._watch_at_ms <= at_ms:
                return
            self._watch_timer.cancel()
        self._watch_at_ms = at_ms
        self._watch_timer = self._loop.call_later(max(at_ms - now_ms, 0), self._look)

    def _look(self) -> None:
        self._watch_timer = None
        now_ms = self._loop.now_ms()
        wire = self._wire
        late = (
            next((request for request in wire.in_flight if request.deadline_ms <= now_ms), None)
            if wire is not None
            else None
        )
        if wire is not None and late is not None:
            # Answers come in order, so no later one can come either. Only a new connection helps.
            wire.in_flight.remove(late)
            self._time_out(late, "no answer")
            wire.broken(f"closed: no answer to {late.name} within {late.timeout_ms} ms")
            return
        if self._throttle_timer is None:
            expired = [request for request in self._queue if request.deadline_ms <= now_ms]
            if expired:
                self._queue = deque(request for request in self._queue if request.deadline_ms > now_ms)
            for request in expired:
                self._time_out(request, "not sent, the broker was not reached")
        # `_resume` handles the time of throttled requests; a link is idle only without requests.
        deadlines = [request.deadline_ms for request in self._queue] if self._throttle_timer is None else []
        if wire is not None and self.is_ready:
            deadlines += [request.deadline_ms for request in wire.in_flight]
            if not deadlines and not self._queue and self._settings.connections_max_idle_ms >= 0:
                idle_at_ms = self._last_used_ms + self._settings.connections_max_idle_ms
                if idle_at_ms <= now_ms:
                    self._wire = None
                    wire.close()
                    return
                deadlines.append(idle_at_ms)
        if deadlines:
            self._watch(min(deadlines), now_ms)

    def _time_out(self, request: InFlightRequest, what: str) -> None:
        self._fail_soon(
            request, RequestTimedOut(f"{self.address}: {request.name}: {what} within {request.timeout_ms} ms")
        )


def failed(request: InFlightRequest, reason: ClientError) -> ClientError:
    """The error for a request whose connection was lost."""
    return (
        ConnectionFailed(f"{reason}; {request.name} was not answered") if type(reason) is ConnectionFailed else reason
    )
