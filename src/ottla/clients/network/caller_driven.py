"""A client loop that its user's own thread runs while it waits: no hand-over between threads where records come fast.

Two threads that both want the interpreter wait for each other up to 5 ms a time (the switch interval), and a client
loop asks for it after every system call: a consumer that decodes on one thread and receives on another is several times
slower than one that does both on one. So the client loop has a baton. The user's thread takes it to wait or to call in;
a keeper thread takes it when the user has been away for a moment, so that heartbeats and fetches go on.
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
# After so long without the user, the keeper runs the loop.
_AWAY_S: Final = 0.02
# While the user is in the client loop, the keeper looks only now and then whether it has left.
_LOOK_S: Final = 0.1
# A user who only ever calls in keeps the keeper out, and so must run timers and sockets now and then.
_TURN_DUE_S: Final = 0.01


class CallerDrivenNetwork(ThreadNetwork):
    """As `ThreadNetwork`; the client loop is whichever thread holds the baton."""

    def __init__(self, bootstrap: str, *, client_id: str, settings: NetworkSettings) -> None:
        super().__init__(bootstrap, client_id=client_id, settings=settings)
        self._baton = threading.Lock()
        self._holder: int | None = None  # the thread in the client loop
        self._is_wanted = False  # by the user: the keeper must not take the baton
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
            self._rest.set()  # nobody is there to see it

    def call(self, callback: Callable[[], T], *, timeout_ms: int | None = None) -> T:
        """Run `callback` in the client loop, in this thread; the keeper is asked out first, which takes it a moment."""
        if self.is_in_loop:
            return callback()
        self._take()
        try:
            return callback()
        finally:
            self._give_back()

    def run(self, is_done: Callable[[], bool], timeout_ms: int) -> None:
        """Be the client loop until `is_done` or the time is over."""
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
        # What was asked for in the client loop must be on its way: nobody may come for a while.
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
        # A callback of this turn may have brought what the user waits for.
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
