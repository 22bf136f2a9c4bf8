"""Memory of the pipeline's jobs at a steady load: does it stay flat over the minutes?"""

import json
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from bench.model import OURS, Case, Metric
from bench.peers import Peer
from bench.process_tree import KINDS, resident_bytes

_PARTITIONS = 4
_EVENTS_PER_SECOND = 5_000
_TRIGGER = "2s"
_START_S = 180
_STOP_S = 90
_FLAT = 1.1  # what the mean of a heap that is collected now and then may differ by
_JOBS = ("collect", "income_and_tasks")


class PipelineMemory:
    """`pipeline run` as a process on live traffic: resident memory of driver, JVM and Python workers together."""

    name = "pipeline-memory"
    metrics: Sequence[Metric] = (
        Metric("RSS, last third : first third", "x", higher_is_better=False, goal=_FLAT, absolute_goal=True),
        Metric("RSS of all, last third", "MB", higher_is_better=False),
        *(Metric(f"RSS of {kind}, last third", "MB", higher_is_better=False) for kind in KINDS),
        Metric("events/s", "/s", goal=0.99 * _EVENTS_PER_SECOND, absolute_goal=True),
        Metric("lag at the end", "events", higher_is_better=False),
    )

    def __init__(self, work_dir: Path, *, minutes: float, warm_up_s: float) -> None:
        self.title = f"{' and '.join(_JOBS)}, {_EVENTS_PER_SECOND:,} events/s live for {minutes:g} min"
        self.samples: list[Mapping[str, int]] = []
        self._work_dir = work_dir
        self._seconds = 60 * minutes
        self._warm_up_s = warm_up_s

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer
        folder = self._work_dir / f"memory-{round_number}"
        folder.mkdir()
        try:
            with Peer(OURS, self._work_dir) as own:
                return self._watch(own.broker.bootstrap, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _watch(self, bootstrap: str, folder: Path) -> Mapping[str, float]:
        from bench.live_traffic import LiveTraffic
        from ottla import Admin, Producer
        from ottla.pipeline.demo.child import OTTLA, ChildProcess
        from ottla.pipeline.topic_creation import create_app_topics

        with Admin(bootstrap_servers=bootstrap) as admin:
            create_app_topics(admin, partitions=_PARTITIONS)
        metrics = folder / "metrics.json"
        # A shell would be one process more between us and the driver.
        command = [*OTTLA, "pipeline", "run", "--bootstrap", bootstrap]
        command += ["--store-path", str(folder / "store"), "--trigger", _TRIGGER, "--master", "local[2,4]"]
        command += ["--jobs", ",".join(_JOBS), "--metrics-json", str(metrics)]
        jobs = ChildProcess(command, log_path=folder / "jobs.log")
        samples: list[Mapping[str, int]] = []

        def check() -> None:
            if not jobs.is_running:
                raise RuntimeError(f"the jobs ended with code {jobs.exit_code}: {jobs.log_tail()}")

        def sample() -> None:
            check()
            samples.append(resident_bytes(jobs.pid))

        jobs.start()
        try:
            deadline_s = time.monotonic() + _START_S
            while any(each.get("state") != "running" for each in _figures(metrics)):
                check()
                if time.monotonic() > deadline_s:
                    raise RuntimeError(f"the jobs did not start within {_START_S} s: {jobs.log_tail()}")
                time.sleep(0.1)
            with Producer({"bootstrap.servers": bootstrap, "linger.ms": "5"}) as producer:
                traffic = LiveTraffic(
                    producer, events_per_second=_EVENTS_PER_SECOND, completed=lambda cheat, sent_at_s: None
                )
                traffic.run(self._warm_up_s, plants=False, each_second=check)
                before = traffic.sent
                traffic.run(self._seconds, plants=False, each_second=sample)
                sent = traffic.sent - before
            lag = sum(int(str(each["lag"] or 0)) for each in _figures(metrics))
        finally:
            jobs.stop(timeout_s=_STOP_S)
        self.samples = samples
        third = max(1, len(samples) // 3)
        first, last = samples[:third], samples[-third:]
        figures = {f"RSS of {kind}, last third": statistics.fmean(each[kind] for each in last) / 1e6 for kind in KINDS}
        early, late = (statistics.fmean(sum(each.values()) for each in part) / 1e6 for part in (first, last))
        return figures | {
            "RSS, last third : first third": late / early,
            "RSS of all, last third": late,
            "events/s": sent / self._seconds,
            "lag at the end": lag,
        }


def _figures(metrics: Path) -> list[dict[str, object]]:
    """Of each job; one without a state as long as there are none."""
    try:
        jobs: dict[str, dict[str, object]] = json.loads(metrics.read_text(encoding="utf-8"))["jobs"]
    except FileNotFoundError:
        return [{}]
    return list(jobs.values())


def memory_cases(work_dir: Path, scale: float, *, minutes: float) -> list[Case]:
    """Of so many minutes, or a short one if none are asked for; none where Spark is not installed."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        return []
    return [PipelineMemory(work_dir, minutes=minutes or 2.0 * scale, warm_up_s=max(10.0, 60.0 * scale))]
