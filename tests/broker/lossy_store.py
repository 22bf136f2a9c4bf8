"""A store whose answers can be lost: the operation was carried out, or was not, and the caller can't know."""

from collections.abc import Sequence
from typing import Any

from ottla.coordination.store import Code, OnDone, Result, Store, Write


class LossyStore:
    """Everything goes to the store behind it; the next multi may lose its answer, or itself."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.loses_answer = False
        self.loses_multi = False
        self.late: list[Sequence[Write]] = []  # multis that were lost on their way, to be carried out at any time
        self.loses_gets = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        lost = Result(Code.CONNECTION_LOST, "")
        if self.loses_answer:
            self.loses_answer = False
            self._store.multi(writes, lambda _: on_done(lost))
        elif self.loses_multi:
            self.loses_multi = False
            self.late.append(writes)
            self._store.exists("/", lambda _: on_done(lost))
        else:
            self._store.multi(writes, on_done)

    def get(self, path: str, on_done: OnDone, **options: Any) -> None:
        if self.loses_gets:
            self._store.exists("/", lambda _: on_done(Result(Code.CONNECTION_LOST, path)))
        else:
            self._store.get(path, on_done, **options)
