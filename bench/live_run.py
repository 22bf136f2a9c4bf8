"""All jobs under live traffic: a broker and `ottla pipeline run` as processes, cheats planted, alerts and lag seen."""

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.alert_watch import AlertWatch, Sighted
from bench.live_traffic import LiveTraffic
from bench.peers import Peer
from ottla.clients.admin import Admin
from ottla.clients.producer.producer import Producer
from ottla.clients.topics import NewTopic
from ottla.pipeline.demo.child import OTTLA, ChildProcess
from ottla.pipeline.detection.alerts import ALERT_TOPIC
from ottla.pipeline.jobs.known import JOBS
from ottla.pipeline.topic_creation import create_app_topics

_PARTITIONS: Final = 4
_START_S: Final = 180
_STREAMING: Final = "running"
# The last alerts, after the last event: more than any of them should take.
_LAST_ALERTS_S: Final = 30
_STOP_S: Final = 90


class LagSample(NamedTuple):
    at_s: float  # since the measured time began
    lag_by_job: dict[str, int]

    @property
    def worst(self) -> int:
        return max(self.lag_by_job.values(), default=0)


class LiveFigures(NamedTuple):
    sighted: Sequence[Sighted]
    began_s: float  # of the wall clock
    seconds: float
    lags: Sequence[LagSample]
    sent: int
    cpu_seconds: float  # of the jobs: driver, JVM and Python workers

    def lag_growth(self) -> float:
        """The mean lag of the last third against that of the first; of each moment the job that is furthest behind."""
        thirds = [
            [each.worst for each in self.lags if place <= 3 * each.at_s / self.seconds < place + 1] for place in (0, 2)
        ]
        first, last = (statistics.fmean(each) if each else 0.0 for each in thirds)
        return last / max(first, 1.0)


class LiveRun:
    """Made for one `run`."""

    def __init__(self, peer: Peer, folder: Path, *, events_per_second: int, trigger_ms: int) -> None:
        self._bootstrap = peer.broker.bootstrap
        self._folder = folder
        self._rate = events_per_second
        self._metrics = folder / "metrics.json"
        command = [*OTTLA, "pipeline", "run", "--bootstrap", self._bootstrap]
        command += ["--store-path", str(folder / "store"), "--trigger", f"{trigger_ms}ms", "--master", "local[2,4]"]
        command += ["--metrics-json", str(self._metrics)]
        self._jobs = ChildProcess(command, log_path=folder / "jobs.log")

    def run(self, *, warm_up_s: float, seconds: float) -> LiveFigures:
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            create_app_topics(admin, partitions=_PARTITIONS)
            admin.create_topics([NewTopic(ALERT_TOPIC, _PARTITIONS)])
        self._jobs.start()
        try:
            self._wait_for_streams()
            watch = AlertWatch(self._bootstrap, self._folder / "store", partitions=_PARTITIONS)
            watch.start()
            try:
                with Producer({"bootstrap.servers": self._bootstrap, "linger.ms": "5"}) as producer:
                    traffic = LiveTraffic(producer, events_per_second=self._rate, completed=watch.complete)
                    return self._play(traffic, watch, warm_up_s=warm_up_s, seconds=seconds)
            finally:
                watch.stop()
        finally:
            self._jobs.stop(timeout_s=_STOP_S)

    def _play(self, traffic: LiveTraffic, watch: AlertWatch, *, warm_up_s: float, seconds: float) -> LiveFigures:
        # Spark starts Python processes with each job's first batches, and Java compiles what it runs often.
        traffic.run(warm_up_s, plants=False, each_second=self._check)
        lags: list[LagSample] = []
        began_s, sent_before, cpu_before = time.time(), traffic.sent, self._cpu_seconds()

        def look() -> None:
            self._check()
            lags.append(LagSample(time.time() - began_s, self._lag_by_job()))

        traffic.run(seconds, plants=True, each_second=look)
        sent, cpu_seconds = traffic.sent - sent_before, self._cpu_seconds() - cpu_before
        deadline_s = time.monotonic() + _LAST_ALERTS_S
        while watch.missing and time.monotonic() < deadline_s:
            self._check()
            time.sleep(0.1)
        if watch.failure is not None:
            raise RuntimeError(f"alerts could not be watched: {watch.failure}")
        return LiveFigures(watch.sighted(), began_s, seconds, lags, sent, cpu_seconds)

    def _wait_for_streams(self) -> None:
        deadline_s = time.monotonic() + _START_S
        while not (states := self._states()) or any(state != _STREAMING for state in states):
            self._check()
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"the jobs did not start within {_START_S} s: {self._jobs.log_tail()}")
            time.sleep(0.1)

    def _states(self) -> list[str]:
        return [each["state"] for each in self._figures().values()]

    def _lag_by_job(self) -> dict[str, int]:
        return {job: int(each["lag"]) for job, each in self._figures().items() if each["lag"] is not None}

    def _figures(self) -> dict[str, dict[str, object]]:
        try:
            figures: dict[str, dict[str, object]] = json.loads(self._metrics.read_text(encoding="utf-8"))["jobs"]
        except FileNotFoundError:
            return {}
        assert figures.keys() == JOBS.keys()
        return figures

    def _cpu_seconds(self) -> float:
        usage = self._jobs.usage()
        return 0.0 if usage is None else usage.cpu_seconds

    def _check(self) -> None:
        if not self._jobs.is_running:
            raise RuntimeError(f"the jobs ended with code {self._jobs.exit_code}: {self._jobs.log_tail()}")
