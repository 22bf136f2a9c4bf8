"""The demo's jobs: `ottla pipeline run` in a process of its own, as anyone would run it, and its figures."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.pipeline.demo.child import OTTLA, ChildProcess
from ottla.pipeline.demo.local_broker import StartFailed

_START_TIMEOUT_S: Final = 300
_STOP_TIMEOUT_S: Final = 90
_QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1"
_STREAMING: Final = "running"
_SPARK_TAIL_LINES: Final = 8
_JOBS_TAIL_LINES: Final = 8
# Libraries print whole tracebacks when Spark ends; they stay in the file.
_TRACEBACK: Final = re.compile(r"\s|-{4}|Traceback |Exception occurred|[\w.]+(Error|Exception)\b")
_ERROR: Final = "Error: "  # of a command that failed, its last line
# Printed by every run with this key, which the demo uses on purpose.
_EXPECTED: Final = "hashed with the key for development"


class JobFigures(NamedTuple):
    """Of one job, since the start of the run."""

    job: str
    group: str
    state: str
    batches: int
    rows_read: int
    rows_written: int
    duplicates: int
    late: int
    dead: int
    lag: int | None
    restarts: int
    last_batch_ms: int | None
    busy_ms: int

    @classmethod
    def of(cls, job: str, document: dict[str, Any]) -> "JobFigures":
        return cls(job, **{name: document[name] for name in cls._fields if name != "job"})


class JobProcess:
    """Runs all known jobs in one Spark session, from `start` to `stop`."""

    def __init__(self, run_dir: Path, bootstrap: str, *, trigger_ms: int, settings_file: Path) -> None:
        self.store_dir = run_dir / "store"
        self.spark_log = self.store_dir / "checkpoint" / "spark.log"
        self._metrics_file = run_dir / "metrics.json"
        command = [*OTTLA, "pipeline", "run", "--bootstrap", bootstrap]
        command += ["--store-path", str(self.store_dir), "--trigger", f"{trigger_ms}ms"]
        command += ["--metrics-json", str(self._metrics_file)]
        command += ["--config", str(settings_file)]
        # Java's second compiler does not pay off within minutes; it is a third of Java's work in a short run.
        environment = {"JAVA_TOOL_OPTIONS": _QUICK_JAVA, **os.environ}
        self.process = ChildProcess(command, log_path=run_dir / "jobs.log", environment=environment)
        self._lines_told = 0

    @property
    def is_running(self) -> bool:
        return self.process.is_running

    def start(self, went_on: Callable[[str], None], *, give_up: Callable[[], bool]) -> None:
        """Waits until every job streams; meanwhile calls `went_on` with what it waits for."""
        self.process.start()
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not self._is_streaming():
            if give_up():
                return
            if not self.process.is_running:
                raise StartFailed(f"the Spark jobs did not start; {self.last_words()}")
            if time.monotonic() > deadline_s:
                raise StartFailed(f"the Spark jobs did not start within {_START_TIMEOUT_S} s; {self.last_words()}")
            time.sleep(0.05)
            went_on(self._stage())

    def stop(self) -> None:
        """Each job stops after its current batch."""
        self.process.stop(timeout_s=_STOP_TIMEOUT_S)

    def figures(self) -> list[JobFigures]:
        """As of the last change; empty before the first."""
        try:
            document = json.loads(self._metrics_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        return [JobFigures.of(job, each) for job, each in document["jobs"].items()]

    def new_messages(self) -> Iterator[str]:
        """Messages of the jobs since the last call: failures and restarts, otherwise nothing."""
        lines = self.process.log_lines()
        new, self._lines_told = lines[self._lines_told :], len(lines)
        return (line for line in new if _is_for_people(line))

    def last_words(self) -> str:
        """After an unexpected end: its error, or else the ends of both logs."""
        errors = [line for line in self.process.log_lines() if line.startswith(_ERROR)]
        if errors:
            return f"{errors[-1].removeprefix(_ERROR)}\nthe whole log: {self.process.log_path}"
        try:
            spark = self.spark_log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SPARK_TAIL_LINES:]
        except FileNotFoundError:
            spark = []
        lines = [line for line in self.process.log_lines() if _is_for_people(line)][-_JOBS_TAIL_LINES:]
        words = f"the end of {self.process.log_path}:\n" + "\n".join(lines)
        return f"{words}\nthe end of {self.spark_log}:\n" + "\n".join(spark) if spark else words

    def _is_streaming(self) -> bool:
        figures = self.figures()
        return bool(figures) and all(each.state == _STREAMING for each in figures)

    def _stage(self) -> str:
        if not self._metrics_file.exists():
            return "loading the jobs, creating tables"
        if not self.spark_log.exists():
            return "looking for Java"
        return "starting Spark" if all(each.state == "starting" for each in self.figures()) else "starting the queries"


def _is_for_people(line: str) -> bool:
    return bool(line.strip()) and _EXPECTED not in line and not _TRACEBACK.match(line)
