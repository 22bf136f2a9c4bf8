"""Health, readiness and metrics over real HTTP, beside an event loop that the test can hold still."""

import asyncio
import gzip
import http.client
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics.broker_metrics import BrokerMetrics
from ottla.broker.metrics.snapshot import Sources
from ottla.broker.states import BrokerState
from tests.broker.test_metrics import Facts


class Stage:
    """An event loop on a thread of its own, with the metrics of a broker on it."""

    def __init__(self, *, health_timeout_ms: int = 20_000) -> None:
        self.facts = Facts()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._held = threading.Event()
        self.metrics = BrokerMetrics(
            self.facts,
            Sources(),
            self.loop,
            listen="127.0.0.1:0",
            health_timeout_ms=health_timeout_ms,
            with_partitions=True,
        )
        self.on_loop(self.metrics.start)

    def on_loop(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(_call(work), self.loop).result(10)

    def hold(self) -> None:
        self.loop.call_soon_threadsafe(self._held.wait)

    def let_go(self) -> None:
        self._held.set()

    def get(self, path: str, **headers: str) -> tuple[int, bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection(self.metrics.address, timeout=30)
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body, response.headers

    def close(self) -> None:
        self.let_go()
        self.on_loop(self.metrics.stop)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _call(work: object) -> None:
    assert callable(work)
    work()


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()


def test_a_broker_that_runs_is_healthy_and_ready(stage: Stage) -> None:
    assert stage.get("/healthz")[:2] == (200, b"ok\n")
    assert stage.get("/readyz")[:2] == (200, b"ok\n")


@pytest.mark.parametrize(
    "state", [BrokerState.NOT_RUNNING, BrokerState.STARTING, BrokerState.RECOVERING, BrokerState.SHUTTING_DOWN]
)
def test_a_broker_that_starts_or_stops_is_healthy_but_not_ready(stage: Stage, state: BrokerState) -> None:
    stage.facts.state = state
    assert stage.get("/healthz")[0] == 200
    assert stage.get("/readyz")[:2] == (503, f"the broker is {state.name}\n".encode())


def test_a_broker_that_does_not_accept_yet_is_not_ready(stage: Stage) -> None:
    stage.facts.is_accepting = False
    assert stage.get("/readyz")[0] == 503


def test_a_broker_that_can_not_go_on_is_neither(stage: Stage) -> None:
    stage.facts.fatal_reason = "no log directory is left"
    assert stage.get("/healthz")[:2] == (503, b"no log directory is left\n")
    assert stage.get("/readyz")[:2] == (503, b"no log directory is left\n")


def test_a_loop_that_is_stuck_is_told_and_recovers() -> None:
    stage = Stage(health_timeout_ms=50)
    try:
        stage.hold()
        reason = b"the event loop did not answer within 50 ms\n"
        for path in ("/healthz", "/readyz", "/metrics"):
            assert stage.get(path)[:2] == (503, reason)
        stage.let_go()
        stage.on_loop(lambda: None)
        assert stage.get("/healthz")[0] == 200
    finally:
        stage.close()


def test_other_paths_are_not_found(stage: Stage) -> None:
    status, body, _ = stage.get("/other")
    assert status == 404
    assert b"/metrics" in body


def test_metrics_are_served_in_the_format_that_is_asked_for(stage: Stage) -> None:
    status, body, headers = stage.get("/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "ottla_broker_state" in {family.name for family in text_string_to_metric_families(body.decode())}
    _, body, headers = stage.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")


def test_long_pages_are_compressed_where_that_is_asked_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.metrics.http_server._COMPRESS_FROM_BYTES", 1)
    _, body, headers = stage.get("/metrics", Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert b"ottla_broker_state" in gzip.decompress(body)


def test_scrapes_at_the_same_time_do_not_disturb_each_other(stage: Stage) -> None:
    with ThreadPoolExecutor(8) as pool:
        statuses = [result[0] for result in pool.map(stage.get, ["/metrics", "/healthz"] * 8)]
    assert statuses == [200] * 16


def test_nobody_is_answered_after_the_stop() -> None:
    stage = Stage()
    stage.close()
    with pytest.raises(OSError):
        stage.get("/healthz")


def test_an_address_that_is_taken_is_named(stage: Stage) -> None:
    second = BrokerMetrics(
        Facts(), Sources(), stage.loop, listen=stage.metrics.address, health_timeout_ms=1000, with_partitions=True
    )
    with pytest.raises(OSError, match="can't listen there"):
        second.start()
