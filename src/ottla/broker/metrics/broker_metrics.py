"""The HTTP server that shows a broker's metrics and its health.

Started by `Broker` where `ottla.metrics.listen` is set, before anything of the core, and stopped after everything else:
so it can report a long recovery and a shutdown.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.metrics.snapshot import BrokerFacts, Snapshot, SnapshotTaker, Sources
from ottla.broker.states import BrokerState
from ottla.core.config.operating_keys import parse_address
from ottla.core.metrics import NANOSECONDS

if TYPE_CHECKING:
    from ottla.broker.metrics.http_server import Page

_LOG = logging.getLogger("ottla.metrics")
_LAG_INTERVAL_S = 1.0
_STOP_TIMEOUT_S = 5.0
_READY_STATES = (BrokerState.RUNNING, BrokerState.RUNNING_AS_CONTROLLER)

_T = TypeVar("_T")


class BrokerMetrics:
    """`start` on the event loop, `stop` there too. The pages are made on the threads of the HTTP server."""

    def __init__(
        self,
        broker: BrokerFacts,
        sources: Sources,
        loop: asyncio.AbstractEventLoop,
        *,
        listen: str,
        health_timeout_ms: int,
        with_partitions: bool,
    ) -> None:
        self.sources = sources
        self.address = ""  # as bound
        self._broker = broker
        self._loop = loop
        self._listen = listen
        self._health_timeout_ms = health_timeout_ms
        self._with_partitions = with_partitions
        self._started_ns = perf_counter_ns()
        self._lag_timer: asyncio.TimerHandle | None = None
        self._lag_due_ns = 0
        self._thread: threading.Thread | None = None
        self._stop_serving: Callable[[], None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Listen; OSError says where that was not possible."""
        listening = _listen_on(self._listen)
        host, port = listening.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        _LOG.info("metrics, health and readiness on http://%s/metrics, /healthz and /readyz", self.address)
        self._thread = threading.Thread(target=self._serve, args=(listening,), name="ottla-metrics", daemon=True)
        self._thread.start()
        self._plan_lag_check()

    def stop(self) -> None:
        self._is_stopped = True
        if self._lag_timer is not None:
            self._lag_timer.cancel()
        if self._stop_serving is not None:
            self._stop_serving()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)

    def _serve(self, listening: socket.socket) -> None:
        # Imported on this thread: the start of the broker does not wait for packages that only a scrape needs.
        from ottla.broker.metrics import exposition  # noqa: F401
        from ottla.broker.metrics.http_server import HttpServer

        pages = {"/metrics": self._metrics_page, "/healthz": self._health_page, "/readyz": self._ready_page}
        server = HttpServer(listening, pages)
        self._stop_serving = server.stop
        if self._is_stopped:
            server.stop()
        server.serve()

    def _plan_lag_check(self) -> None:
        self._lag_due_ns = perf_counter_ns() + int(_LAG_INTERVAL_S * NANOSECONDS)
        self._lag_timer = self._loop.call_later(_LAG_INTERVAL_S, self._check_lag)

    def _check_lag(self) -> None:
        self.sources.loop_lag.observe(max(perf_counter_ns() - self._lag_due_ns, 0))
        self._plan_lag_check()

    # Pages; on any thread

    def _metrics_page(self, accept: str) -> "Page":
        from ottla.broker.metrics.exposition import render
        from ottla.broker.metrics.http_server import Page

        def take(on_done: Callable[[Snapshot], None]) -> Callable[[], None]:
            return SnapshotTaker(self.sources, on_done, self._loop.call_soon).start

        snapshot = self._ask_loop(take)
        if snapshot is None:
            return Page(503, f"{self._stuck()}\n".encode())
        body, content_type = render(
            snapshot,
            self._broker,
            uptime_s=(perf_counter_ns() - self._started_ns) / NANOSECONDS,
            accept=accept,
            with_partitions=self._with_partitions,
        )
        return Page(200, body, content_type)

    def _health_page(self, _: str) -> "Page":
        return _verdict(self._broker.fatal_reason or self._complaint_about_loop())

    def _ready_page(self, _: str) -> "Page":
        broker = self._broker
        state = broker.state
        if broker.fatal_reason is not None:
            return _verdict(broker.fatal_reason)
        if state not in _READY_STATES or not broker.is_accepting:
            return _verdict(f"the broker is {state.name}")
        return _verdict(self._complaint_about_loop())

    def _complaint_about_loop(self) -> str | None:
        def answer(on_done: Callable[[bool], None]) -> Callable[[], None]:
            return lambda: on_done(True)

        return None if self._ask_loop(answer) else self._stuck()

    def _stuck(self) -> str:
        return f"the event loop did not answer within {self._health_timeout_ms} ms"

    def _ask_loop(self, question: Callable[[Callable[[_T], None]], Callable[[], None]]) -> _T | None:
        """Have the loop run what `question` makes of a callback, and wait for the callback; None when it is late."""
        answers: list[_T] = []
        is_answered = threading.Event()

        def on_done(answer: _T) -> None:
            answers.append(answer)
            is_answered.set()

        try:
            self._loop.call_soon_threadsafe(question(on_done))
        except RuntimeError:
            return None  # the loop is closed: the process ends
        is_answered.wait(self._health_timeout_ms / 1000)
        return answers[0] if answers else None


def _verdict(complaint: str | None) -> "Page":
    from ottla.broker.metrics.http_server import Page

    return Page(200, b"ok\n") if complaint is None else Page(503, f"{complaint}\n".encode())


def _listen_on(text: str) -> socket.socket:
    host, port = parse_address(text)
    try:
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        found.sort(key=lambda entry: entry[0] != socket.AF_INET)  # as for listeners
        return socket.create_server((host, port), family=found[0][0])
    except OSError as error:
        problem = f"ottla.metrics.listen={text}: can't listen there: {error.strerror}; choose another host or port"
        raise OSError(problem) from error
