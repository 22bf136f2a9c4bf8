"""A client loop that the user's own thread runs while it waits: no switches between threads when records come fast.

Two threads that both need the interpreter wait for each other up to 5 ms at a time (the switch interval), and a client
loop needs it after every system call: a consumer that decodes on one thread and receives on another is several times
slower than one that does both on one. So the client loop has a baton. The user's thread takes it to wait or to run a
callback; a keeper thread takes it when the user has been away for a moment, so that heartbeats and fetches continue.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.clients.errors import ClientClosed, ClientError
from ottla.clients.network.threaded import ThreadNetwork
from ottla.links.settings import NetworkSettings

T = TypeVar("T")

logger: Final = logging.getLogger("ottla.clients")
# After this long without the user, the keeper runs the loop.
_AWAY_S: Final = 0.02
# How often the keeper checks whether the user has left the client loop.
_LOOK_S: Final = 0.1
# A user that only runs callbacks keeps the keeper out, so it must run timers and sockets from time to time.
_TURN_DUE_S: Final = 0.01


class CallerDrivenNetwork(ThreadNetwork):
    """Like `ThreadNetwork`, but the thread that holds the baton is the client loop."""

    def __init__(self, bootstrap: str, *, client_id: str, settings: NetworkSettings) -> None:
        super().__init__(bootstrap, client_id=client_id, settings=settings)
        self._baton = threading.Lock()
        self._holder: int | None = None  # the thread in the client loop
        self._is_wanted = False  # the user wants the baton: the keeper must not take it
        self._used_at = 0.0
        self._turned_at = 0.0
        self._rest = threading.Event()
        self._is_done: Callable[[], bool] | None = None

    @property
    def is_in_loop(self) -> bool:
        return self._holder == threading.get_ident()

    def post(self, callback: Callable[[], None]) -> None:
        super().post(callback)
        if self._holder is None:
            self._rest.set()  # no thread reads it

    def call(self, callback: Callable[[], T], *, timeout_ms: int | None = None) -> T:
        """Run `callback` in the client loop, in this thread; the keeper must leave first, which takes a moment."""
        if self.is_in_loop:
            return callback()
        self._take()
        try:
            return callback()
        finally:
            self._give_back()

    def run(self, is_done: Callable[[], bool], timeout_ms: int) -> None:
        """Run the client loop in this thread until `is_done` or the timeout."""
        self._take()
        self._is_done = is_done
        try:
            deadline = time.monotonic() + timeout_ms / 1000
            while not is_done():
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._guarded_turn(left)
        finally:
            self._is_done = None
            self._give_back()

    def close(self) -> None:
        self._rest.set()
        super().close()

    def _take(self) -> None:
        self._is_wanted = True
        if not self._baton.acquire(blocking=False):
            self._wake()
            self._baton.acquire()
        if self._is_stopped:
            self._is_wanted = False
            self._baton.release()
            raise self.failure or ClientClosed("the client is closed")
        self._holder = threading.get_ident()

    def _give_back(self) -> None:
        # Send the requests of this call now: no thread may run the loop for a while.
        try:
            if time.monotonic() - self._turned_at > _TURN_DUE_S:
                self._guarded_turn(0)
            while self._soon or self._unsent:
                self._run_soon()
                self._send_unsent()
        finally:
            self._holder = None
            self._used_at = time.monotonic()
            self._is_wanted = False
            self._baton.release()

    def _sleep_s(self, most_s: float | None) -> float | None:
        # A callback of this turn may have got what the user waits for.
        if self._is_done is not None and self._is_done():
            return 0
        return super()._sleep_s(most_s)

    def _guarded_turn(self, most_s: float) -> None:
        try:
            self._turn(most_s)
            self._turned_at = time.monotonic()
        except Exception as error:
            self.failure = ClientError(f"the client ended by a bug: {error!r}")
            self._is_stopping = True
            raise

    def _run(self) -> None:
        """The keeper."""
        try:
            while not self._is_stopping:
                away_s = time.monotonic() - self._used_at
                if self._is_wanted or (away_s < _AWAY_S and not self._rest.is_set()):
                    self._rest.wait(_LOOK_S if self._is_wanted else _AWAY_S)
                    if self._is_wanted:
                        self._rest.clear()
                    continue
                self._rest.clear()
                with self._baton:
                    if self._is_wanted:
                        continue
                    self._holder = threading.get_ident()
                    try:
                        self._turn()
                    finally:
                        self._holder = None
        except Exception as error:
            logger.exception("the client's thread ended by a bug")
            self.failure = ClientError(f"the client's thread ended by a bug: {error!r}")
        finally:
            with self._baton:
                self._is_stopping = True
                self._end()
