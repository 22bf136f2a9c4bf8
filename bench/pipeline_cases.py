"""Cases on the pipeline: how fast its jobs catch up, and whether an event costs the same after a month of days."""

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bench.model import Case, Metric
from bench.peers import Peer
from bench.process_tree import BROKER, KINDS

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.pipeline.stores.embedded.store import EmbeddedStore
    from ottla.pipeline.stores.port import Batch

_FLAT = 1.25  # what two equal costs may differ by on a machine that does other things too
_JOBS = ("collect", "income_and_tasks")
_PARTITIONS = 4
_JOB_TIMEOUT_S = 1_800
_DAY_MS = 86_400_000
_FIRST_MS = 20_332 * _DAY_MS


class CatchUp:
    """Collect and income work off generated traffic, embedded store, two cores."""

    name = "pipeline-catch-up"
    title = "collect and income_and_tasks, all topics from their beginning"
    metrics: Sequence[Metric] = (
        Metric("events/s", "/s", goal=60_000, absolute_goal=True),
        *(Metric(f"CPU of an event, {kind}", "µs", higher_is_better=False) for kind in (*KINDS, BROKER)),
    )

    def __init__(self, work_dir: Path, *, accounts: int) -> None:
        self._work_dir = work_dir
        self._accounts = accounts
        self._filled: Peer | None = None

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del round_number
        if self._filled is not peer:
            # The app's topics have fixed names: filled once for all rounds, and by no other case of this peer.
            self._fill(peer.broker.bootstrap)
            self._filled = peer
        job = {"bootstrap": peer.broker.bootstrap, "jobs": _JOBS, "work_dir": str(self._work_dir)}
        job["broker_pid"] = peer.broker.pid
        done = _run([sys.executable, "-m", "bench.pipeline_job", json.dumps(job)])
        figures = json.loads(done.splitlines()[-1])
        events = figures["read"]["collect"]
        costs = {f"CPU of an event, {kind}": 1e6 * used / events for kind, used in figures["cpu_seconds_of"].items()}
        return {"events/s": events / figures["seconds"], **costs}

    def _fill(self, bootstrap: str) -> None:
        command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "generate", "-b", bootstrap, "--days", "7"]
        _run([*command, "--accounts", str(self._accounts), "--partitions", str(_PARTITIONS)])


class DaysCollected:
    """The same batch of events of a new day, into a store that holds one day and one that holds thirty."""

    name = "pipeline-days"
    title = "an event's cost with 30 days collected against 1"
    metrics: Sequence[Metric] = (
        Metric("30 days : 1 day, cost ratio", "x", higher_is_better=False, goal=_FLAT, absolute_goal=True),
        Metric("30 days, each event", "µs", higher_is_better=False),
    )

    def __init__(self, work_dir: Path, *, events: int) -> None:
        self._work_dir = work_dir
        self._events = events

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer
        folder = self._work_dir / f"days-{round_number}"
        try:
            few_us = self._cost_us(folder / "few", days=1)
            many_us = self._cost_us(folder / "many", days=30)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return {"30 days : 1 day, cost ratio": many_us / few_us, "30 days, each event": many_us}

    def _cost_us(self, folder: Path, *, days: int) -> float:
        """Of collecting and booking, in batches of the day after those that are there."""
        from ottla.pipeline.stores.embedded.store import EmbeddedStore
        from ottla.pipeline.stores.port import Batch

        store = EmbeddedStore(folder)
        store.initialise()
        for day in range(days):
            _collect_and_book(store, _credits(day, first=0, count=self._events), Batch("bench", "days", day))
        costs = []
        for number in range(5):
            events = _credits(days, first=number * self._events, count=self._events)
            started = time.perf_counter()
            _collect_and_book(store, events, Batch("bench", "measured", number))
            costs.append(1e6 * (time.perf_counter() - started) / self._events)
        store.close()
        return statistics.median(costs[1:])  # the first batch of a day opens it


def _collect_and_book(store: "EmbeddedStore", events: "pa.Table", batch: "Batch") -> None:
    from ottla.pipeline.ledger.postings import entries_of, steps_of

    store.append_arrow(events, batch)
    store.post_arrow(entries_of(events), steps_of(events), batch)


def _credits(day: int, *, first: int, count: int) -> "pa.Table":
    """Credit events with all that collecting and booking look at."""
    import pyarrow as pa

    from ottla.pipeline.events.parsing import EVENTS
    from ottla.pipeline.ledger.ledger_rules import CREDIT, entry_id
    from ottla.pipeline.topics import CREDIT as CREDIT_TOPIC

    ids = [f"{day:04d}-{number:012d}" for number in range(first, first + count)]
    times = [_FIRST_MS + day * _DAY_MS + number % _DAY_MS for number in range(first, first + count)]
    numbers = ("partition", "offset", "timestamp_ms", "schema_version", "event_time", "credit", "duration_ms")
    integers = {*numbers, "step", "steps_total", "reward"}
    given = {
        "topic": pa.repeat(CREDIT_TOPIC.name, count),
        "partition": pa.repeat(0, count),
        "offset": pa.array(range(first, first + count)),
        "timestamp_ms": pa.array(times),
        "event_id": pa.array(ids),
        "event_type": pa.repeat(CREDIT_TOPIC.event_type, count),
        "schema_version": pa.repeat(1, count),
        "event_time": pa.array(times),
        "account_id": pa.array([f"u{number % 5_000:08d}" for number in range(first, first + count)]),
        "credit": pa.repeat(3, count),
        "body_hash": pa.array([f"{number:032x}" for number in range(first, first + count)]),
    }
    columns = {
        name: given.get(name, pa.nulls(count, pa.int64() if name in integers else pa.string())) for name in EVENTS
    }
    columns |= {
        "error_class": pa.nulls(count, pa.string()),
        "entry_id": pa.array([entry_id(each, CREDIT) for each in ids]),
        "rule": pa.repeat(CREDIT, count),
        "amount": given["credit"],
        "event_time_ms": given["event_time"],
    }
    return pa.table(columns)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_JOB_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} …: {done.stderr.strip()[-500:]}")
    return done.stdout


def pipeline_cases(work_dir: Path, scale: float) -> Sequence[Case]:
    """None where Spark is not installed."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return []
    return [
        CatchUp(work_dir, accounts=int(6_000 * scale)),
        DaysCollected(work_dir, events=int(20_000 * max(scale, 0.1))),
    ]
