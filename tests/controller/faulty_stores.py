"""The embedded store behind a connection that breaks, or that the test holds up."""

from collections.abc import Callable, Sequence
from typing import Any

from ottla.coordination.store import Code, OnDone, Result, Write


class ForgetfulStore:
    """A store whose connection breaks after each multi was carried out, or before it."""

    def __init__(self, store: Any, *, is_applied: bool) -> None:
        self._store = store
        self._is_applied = is_applied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        lost = Result(Code.CONNECTION_LOST, "", detail="cable cut")
        if self._is_applied:
            self._store.multi(writes, lambda _: on_done(lost))
        else:
            self._store.exists("/", lambda _: on_done(lost))


class HeldStore:
    """A store whose writes wait until the test lets them go, each on its own."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.held: list[tuple[Sequence[Write], Callable[[], None]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        self.held.append((writes, lambda: self._store.multi(writes, on_done)))

    def let_go(self, number: int = 0) -> None:
        self.held.pop(number)[1]()
