"""The client loop of a blocking client: one daemon thread with a selector, its timers and its sockets.

Users' threads reach it only by `post` and `call`. An exception in a callback is a bug: the thread ends, and every
request and every later call fails.
"""

import heapq
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.clients.errors import ClientClosed, ClientError
from ottla.clients.network.base import BaseNetwork
from ottla.clients.network.sockets import SocketChannel
from ottla.links.addresses import Address
from ottla.links.settings import NetworkSettings
from ottla.links.wire import Channel, Wire

T = TypeVar("T")

_TIMERS_SWEPT_MIN: Final = 1_024


class LoopTimer:
    """An entry in the heap; a cancelled one stays there and is skipped."""

    __slots__ = ("at_ms", "callback", "order")

    def __init__(self, at_ms: int, order: int, callback: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.order = order
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: "LoopTimer") -> bool:
        return (self.at_ms, self.order) < (other.at_ms, other.order)

    def cancel(self) -> None:
        self.callback = None


class ThreadNetwork(BaseNetwork):
    """Runs from `start` until `close`, which any thread may call, also a callback in the client loop."""

    def __init__(self, bootstrap: str, *, client_id: str, settings: NetworkSettings) -> None:
        super().__init__(bootstrap, client_id=client_id, settings=settings)
        # Called in the client loop with the reason when a bug ends it.
        self.on_broken: list[Callable[[ClientError], None]] = []
        self.failure: ClientError | None = None
        self._selector = selectors.DefaultSelector()
        self._waker, self._wakened = socket.socketpair()
        self._waker.setblocking(False)
        self._wakened.setblocking(False)
        self._selector.register(self._wakened, selectors.EVENT_READ, None)
        self._soon: deque[Callable[[], None]] = deque()  # from this thread and from others
        self._timers: list[LoopTimer] = []
        self._timer_order = 0
        self._sweep_at = _TIMERS_SWEPT_MIN
        self._unsent: list[SocketChannel] = []
        self._is_asleep = False
        self._is_stopping = False
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name=f"ottla-{client_id}", daemon=True)

    # From any thread.

    def start(self) -> None:
        self._thread.start()

    def post(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)
        # Both sides use this order: the client loop first notes that it sleeps, then checks the queue once more.
        if self._is_asleep:
            self._is_asleep = False
            self._wake()

    def call(self, callback: Callable[[], T], *, timeout_ms: int | None = None) -> T:
        """Run `callback` in the client loop, wait for it and return its result."""
        if threading.current_thread() is self._thread:
            return callback()
        done = threading.Event()
        results: list[T] = []
        failures: list[Exception] = []

        def run() -> None:
            try:
                results.append(callback())
            except Exception as error:  # noqa: BLE001 - it is raised in the thread that asked
                failures.append(error)
            done.set()

        self.post(run)
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while not done.wait(0.1 if deadline is None else max(min(0.1, deadline - time.monotonic()), 0)):
            if self._is_stopped and not done.is_set():
                raise self.failure or ClientClosed("the client is closed")
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"the client's thread did not get to it within {timeout_ms} ms")
        if failures:
            raise failures[0]
        return results[0]

    def close(self) -> None:
        """Stop the thread; all requests fail with `ClientClosed`. A second call does nothing."""
        if self._is_stopping:
            return
        self._is_stopping = True
        if threading.current_thread() is self._thread:
            return
        if self._thread.is_alive():
            self._wake()
            self._thread.join()
        elif not self._is_stopped:
            self._end()

    @property
    def is_in_loop(self) -> bool:
        """Whether the caller runs in the client loop."""
        return threading.current_thread() is self._thread

    # In the client loop.

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> LoopTimer:
        self._timer_order += 1
        timer = LoopTimer(self.now_ms() + delay_ms, self._timer_order, callback)
        if len(self._timers) >= self._sweep_at:
            self._sweep_timers()
        heapq.heappush(self._timers, timer)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def open(self, address: Address, wire: Wire) -> Channel:
        return SocketChannel(address, wire, loop=self, selector=self._selector)

    def send_soon(self, channel: SocketChannel) -> None:
        """Write once per turn: one system call for what several callbacks send."""
        self._unsent.append(channel)

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._turn()
        except Exception as error:  # noqa: BLE001 - a bug ends the client loop, and nobody may wait for it forever
            _log_bug("the client's thread ended by a bug")
            self.failure = ClientError(f"the client's thread ended by a bug: {error!r}")
        finally:
            self._is_stopping = True
            self._end()

    def _turn(self, most_s: float | None = None) -> None:
        self._run_timers()
        self._run_soon()
        self._send_unsent()
        self._is_asleep = True
        ready = self._selector.select(self._sleep_s(most_s))
        self._is_asleep = False
        for key, events in ready:
            channel = key.data
            if channel is None:
                self._drain_wakeups()
            else:
                channel.handle(events)

    def _sleep_s(self, most_s: float | None) -> float | None:
        """How long the loop may wait for sockets; None: for ever."""
        if self._soon or self._is_stopping:
            return 0
        if not self._timers:
            return most_s
        until_timer_s = max(self._timers[0].at_ms - self.now_ms(), 0) / 1000
        return until_timer_s if most_s is None else min(most_s, until_timer_s)

    def _run_timers(self) -> None:
        timers = self._timers
        while timers and (timers[0].callback is None or timers[0].at_ms <= self.now_ms()):
            callback = heapq.heappop(timers).callback
            if callback is not None:
                callback()

    def _sweep_timers(self) -> None:
        """Cancelled timers stay in the heap until their time, which may be minutes; remove them when there are many."""
        self._timers[:] = [timer for timer in self._timers if timer.callback is not None]
        heapq.heapify(self._timers)
        self._sweep_at = max(_TIMERS_SWEPT_MIN, 2 * len(self._timers))

    def _run_soon(self) -> None:
        soon = self._soon
        for _ in range(len(soon)):  # callbacks that they add wait for the next turn, so that sockets get theirs
            soon.popleft()()

    def _send_unsent(self) -> None:
        unsent, self._unsent = self._unsent, []
        for channel in unsent:
            channel.flush()

    def _wake(self) -> None:
        try:
            self._waker.send(b"\0")
        except (BlockingIOError, OSError):
            pass  # full: it wakes anyway; closed: there is no thread to wake

    def _drain_wakeups(self) -> None:
        try:
            while len(self._wakened.recv(4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def _end(self) -> None:
        """Call back everything that waits, one by one: a callback that fails must not stop the others."""
        self._guarded(self.brokers.close)
        for tell in self.on_broken if self.failure is not None else ():
            self._guarded(lambda tell=tell: tell(self.failure))  # type: ignore[misc]
        while self._soon:
            self._guarded(self._soon.popleft())
        self._is_stopped = True
        self._selector.close()
        self._waker.close()
        self._wakened.close()

    def _guarded(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:  # noqa: BLE001 - the others are called all the same
            _log_bug("a callback failed while the client closed")


def _log_bug(message: str) -> None:
    import logging  # the import takes 7 ms, which only a bug costs

    logging.getLogger("ottla.clients").exception(message)
