"""The background and the coordination store with a stopwatch; they replace the plain ones where metrics are on."""

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from ottla.coordination.store import OnDone, Result, SessionListener, Store, Watch, Write
from ottla.core.clock import Background
from ottla.core.metrics import Histogram


class FlushMetrics:
    """The fsyncs of logs, counted by the time that they took on their thread."""

    __slots__ = ("durations", "failed")

    def __init__(self) -> None:
        self.durations = Histogram()
        self.failed = 0


class MeasuredFlushes:
    """The background of the flusher, whose every work is one flush of a log."""

    def __init__(self, background: Background, metrics: FlushMetrics) -> None:
        self._background = background
        self._metrics = metrics

    def submit(self, work: Callable[[], Any], on_done: Callable[[Any, BaseException | None], None]) -> None:
        metrics = self._metrics

        def measured() -> tuple[int, Any]:
            started_ns = perf_counter_ns()
            result = work()
            return perf_counter_ns() - started_ns, result

        def on_measured(measurement: Any, error: BaseException | None) -> None:
            if error is not None:
                metrics.failed += 1
                on_done(None, error)
                return
            elapsed_ns, result = measurement
            metrics.durations.observe(elapsed_ns)
            on_done(result, None)

        self._background.submit(measured, on_measured)


class StoreOperation:
    """One kind of operation: how long its answers took and what they said."""

    __slots__ = ("by_code", "durations")

    def __init__(self) -> None:
        self.durations = Histogram()
        self.by_code: dict[int, int] = {}


class MeasuredStore:
    """A `Store` that measures each operation, from the call to its answer on the loop. The last one to be closed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.operations: dict[str, StoreOperation] = {}

    @property
    def session_id(self) -> int:
        return self._store.session_id

    def add_session_listener(self, listener: SessionListener) -> None:
        self._store.add_session_listener(listener)

    def create(
        self, path: str, value: bytes, on_done: OnDone, *, ephemeral: bool = False, sequential: bool = False
    ) -> None:
        self._store.create(path, value, self._measured("create", on_done), ephemeral=ephemeral, sequential=sequential)

    def get(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        self._store.get(path, self._measured("get", on_done), watch=watch)

    def set(self, path: str, value: bytes, on_done: OnDone, *, version: int) -> None:
        self._store.set(path, value, self._measured("set", on_done), version=version)

    def delete(self, path: str, on_done: OnDone, *, version: int) -> None:
        self._store.delete(path, self._measured("delete", on_done), version=version)

    def exists(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        self._store.exists(path, self._measured("exists", on_done), watch=watch)

    def children(self, path: str, on_done: OnDone, *, watch: Watch | None = None) -> None:
        self._store.children(path, self._measured("children", on_done), watch=watch)

    def multi(self, writes: Sequence[Write], on_done: OnDone) -> None:
        self._store.multi(writes, self._measured("multi", on_done))

    def close(self) -> None:
        self._store.close()

    def _measured(self, name: str, on_done: OnDone) -> OnDone:
        operation = self.operations.get(name)
        if operation is None:
            operation = self.operations[name] = StoreOperation()
        started_ns = perf_counter_ns()

        def on_measured(result: Result) -> None:
            operation.durations.observe(perf_counter_ns() - started_ns)
            operation.by_code[result.code] = operation.by_code.get(result.code, 0) + 1
            on_done(result)

        return on_measured
