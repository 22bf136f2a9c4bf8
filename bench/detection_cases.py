"""Cases on all jobs together: catching up, live traffic, and whether cost grows with days or accounts.

Each has a broker of its own, as the app's topics have fixed names. `points` of a case are what plots are drawn from.
"""

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bench.model import OURS, Metric
from bench.peers import Peer

if TYPE_CHECKING:
    from bench.live_run import LiveFigures

_FLAT: Final = 1.25  # what two equal costs may differ by on a machine that does other things too
_PARTITIONS: Final = 4
_JOB_TIMEOUT_S: Final = 1_800
_EVENTS_PER_SECOND: Final = 5_000
_TRIGGER_MS: Final = 1_000
_ALERT_S: Final = 3.0
_DAYS: Final = (1, 3, 10, 30)
_ACCOUNTS: Final = (10_000, 100_000, 1_000_000)
_ALL_JOBS: Final = ("collect", "income_and_tasks", "device_switching", "invite_fraud", "phone_region")
_DETECTORS: Final = ("device_switching", "invite_fraud", "phone_region")


class DetectionCatchUp:
    """A week of generated traffic, embedded store, two cores; Spark is running and warm. Medians of its turns."""

    name = "detection-catch-up"
    title = "all five jobs together, all topics from their beginning, two cores"
    metrics: Sequence[Metric] = (
        Metric("events/s", "/s", goal=40_000, absolute_goal=True),
        Metric("CPU of an event", "µs", higher_is_better=False),
    )

    def __init__(self, work_dir: Path, *, accounts: int, turns: int) -> None:
        self.points: list[dict[str, Any]] = []
        self._work_dir = work_dir
        self._accounts = accounts
        self._turns = turns

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer, round_number
        with Peer(OURS, self._work_dir) as own:
            command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "generate", "-b", own.broker.bootstrap]
            command += ["--accounts", str(self._accounts), "--days", "7", "--partitions", str(_PARTITIONS)]
            _run(command)
            self.points = _run_job(own, self._work_dir, jobs=_ALL_JOBS, turns=self._turns)
        events = self.points[0]["read"]["collect"]
        return {
            "events/s": statistics.median(events / turn["seconds"] for turn in self.points),
            "CPU of an event": statistics.median(1e6 * turn["cpu_seconds"] / events for turn in self.points),
        }


class DetectionLive:
    """Events at an even rate, planted cheats among them; see docs/pipeline-speed.md."""

    name = "detection-live"
    metrics: Sequence[Metric] = (
        Metric("last event to alert, p50", "s", higher_is_better=False),
        Metric("last event to alert, p95", "s", higher_is_better=False, goal=_ALERT_S, absolute_goal=True),
        Metric("last event to row, p50", "s", higher_is_better=False),
        Metric("last event to row, p95", "s", higher_is_better=False, goal=_ALERT_S, absolute_goal=True),
        Metric("alerts that did not come", "", higher_is_better=False, goal=0, absolute_goal=True),
        Metric("lag, last third : first third", "x", higher_is_better=False, goal=_FLAT, absolute_goal=True),
        Metric("lag of the job furthest behind, median", "events", higher_is_better=False),
        Metric("events/s", "/s", goal=0.99 * _EVENTS_PER_SECOND, absolute_goal=True),
        Metric("jobs' CPU", "cores", higher_is_better=False),
    )

    def __init__(self, work_dir: Path, *, minutes: float, warm_up_s: float) -> None:
        self.title = f"all five jobs, {_EVENTS_PER_SECOND:,} events/s live for {minutes:g} min"
        self.points: dict[str, Any] = {}
        self._work_dir = work_dir
        self._seconds = 60 * minutes
        self._warm_up_s = warm_up_s

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer
        from bench.live_run import LiveRun

        folder = self._work_dir / f"live-{round_number}"
        folder.mkdir()
        try:
            with Peer(OURS, self._work_dir) as own:
                run = LiveRun(own, folder, events_per_second=_EVENTS_PER_SECOND, trigger_ms=_TRIGGER_MS)
                figures = run.run(warm_up_s=self._warm_up_s, seconds=self._seconds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.points = _live_points(figures)
        alerts = [each.alert_s for each in figures.sighted if each.alert_s is not None]
        rows = [each.row_s for each in figures.sighted if each.row_s is not None]
        if len(alerts) < 2 or len(rows) < 2:
            raise RuntimeError(f"of {len(figures.sighted)} planted cheats {len(rows)} were found")
        return {
            "last event to alert, p50": statistics.median(alerts),
            "last event to alert, p95": _percentile(alerts, 95),
            "last event to row, p50": statistics.median(rows),
            "last event to row, p95": _percentile(rows, 95),
            "alerts that did not come": sum(each.row_s is None for each in figures.sighted),
            "lag, last third : first third": figures.lag_growth(),
            "lag of the job furthest behind, median": statistics.median(each.worst for each in figures.lags),
            "events/s": figures.sent / figures.seconds,
            "jobs' CPU": figures.cpu_seconds / figures.seconds,
        }


class _Histories:
    """The same new events to the detectors, into stores that remember more and more."""

    def __init__(self, work_dir: Path, *, events: int, histories: Sequence[Mapping[str, int]], turns: int) -> None:
        self.points: list[dict[str, Any]] = []
        self._work_dir = work_dir
        self._events = events
        self._histories = histories
        self._turns = turns

    def _costs_us(self) -> list[float]:
        """CPU of an event, of each history; the least of its turns, as other work on the machine only adds."""
        with Peer(OURS, self._work_dir) as own:
            _send_new_events(own, self._events)
            found = _run_job(
                own,
                self._work_dir,
                jobs=_DETECTORS,
                histories=self._histories,
                turns=self._turns,
                events=self._events,
            )
        self.points = [
            {
                "days": each["days"],
                "accounts": each["accounts"],
                "cpu_us": min(1e6 * run["cpu_seconds"] / self._events for run in each["runs"]),
                "wall_us": min(1e6 * run["seconds"] / self._events for run in each["runs"]),
            }
            for each in found
        ]
        return [point["cpu_us"] for point in self.points]


class DetectionDays(_Histories):
    name = "detection-days"
    title = "the detectors' CPU of an event, 30 days of history against 1"
    metrics: Sequence[Metric] = (
        Metric("30 days : 1 day, cost ratio", "x", higher_is_better=False, goal=_FLAT, absolute_goal=True),
        Metric("30 days, each event", "µs", higher_is_better=False),
    )

    def __init__(self, work_dir: Path, *, events: int, turns: int) -> None:
        histories = [{"days": days, "accounts": _ACCOUNTS[0]} for days in _DAYS]
        super().__init__(work_dir, events=events, histories=histories, turns=turns)

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer, round_number
        costs_us = self._costs_us()
        return {"30 days : 1 day, cost ratio": costs_us[-1] / costs_us[0], "30 days, each event": costs_us[-1]}


class DetectionAccounts(_Histories):
    name = "detection-accounts"
    metrics: Sequence[Metric] = (
        Metric("most : fewest accounts, cost ratio", "x", higher_is_better=False, goal=_FLAT, absolute_goal=True),
        Metric("most accounts, each event", "µs", higher_is_better=False),
    )

    def __init__(self, work_dir: Path, *, events: int, accounts: Sequence[int], turns: int) -> None:
        self.title = f"the detectors' CPU of an event, {accounts[-1]:,} accounts against {accounts[0]:,}"
        super().__init__(
            work_dir, events=events, histories=[{"days": 1, "accounts": each} for each in accounts], turns=turns
        )

    def run_round(self, peer: Peer, round_number: int) -> Mapping[str, float]:
        del peer, round_number
        costs_us = self._costs_us()
        return {
            "most : fewest accounts, cost ratio": costs_us[-1] / costs_us[0],
            "most accounts, each event": costs_us[-1],
        }


def _live_points(figures: "LiveFigures") -> dict[str, Any]:
    return {
        "alerts": [{"at_s": each.sent_at_s - figures.began_s, **each._asdict()} for each in figures.sighted],
        "lags": [each._asdict() for each in figures.lags],
        "events_per_second": _EVENTS_PER_SECOND,
        "goal_s": _ALERT_S,
    }


def _percentile(figures: Sequence[float], percent: int) -> float:
    return statistics.quantiles(figures, n=100, method="inclusive")[percent - 1]


def _send_new_events(own: Peer, count: int) -> None:
    from bench.detection_history import new_events
    from ottla.clients.admin import Admin
    from ottla.pipeline.topic_creation import create_app_topics
    from ottla.pipeline.traffic.sending import EventSender

    with Admin(bootstrap_servers=own.broker.bootstrap) as admin:
        create_app_topics(admin, partitions=_PARTITIONS)
    sender = EventSender({"bootstrap.servers": own.broker.bootstrap})
    for event in new_events(count):
        sender.send(event)
    is_stored = sender.finish(60_000)
    sender.close()
    if not is_stored or sender.refused_count:
        raise RuntimeError(f"the events could not be sent: {sender.first_refusal}")


def _run_job(own: Peer, work_dir: Path, *, jobs: Sequence[str], **more: object) -> Any:
    job = {"bootstrap": own.broker.bootstrap, "jobs": jobs, "work_dir": str(work_dir), **more}
    return json.loads(_run([sys.executable, "-m", "bench.detection_job", json.dumps(job)]).splitlines()[-1])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_JOB_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} …: {done.stderr.strip()[-500:]}")
    return done.stdout


DetectionCase: TypeAlias = DetectionCatchUp | DetectionLive | DetectionDays | DetectionAccounts


def detection_cases(work_dir: Path, scale: float, *, live_minutes: float) -> list[DetectionCase]:
    """Each is to be run once, as it has its turns within or goes on for long; none where Spark is not installed."""
    if not all(find_spec(name) is not None for name in ("pyspark", "pyarrow", "phonenumbers")):
        return []
    is_whole = scale >= 1
    events, turns = int(250_000 * scale), 3 if is_whole else 1
    return [
        DetectionCatchUp(work_dir, accounts=int(6_000 * scale), turns=turns),
        DetectionDays(work_dir, events=events, turns=turns),
        DetectionAccounts(work_dir, events=events, accounts=_ACCOUNTS if is_whole else _ACCOUNTS[:2], turns=turns),
        DetectionLive(work_dir, minutes=live_minutes, warm_up_s=30.0 if is_whole else 10.0),
    ]
