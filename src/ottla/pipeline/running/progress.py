"""The figures of a run: what each job has read, written and refused, and its lag.

The job's query counts them batch by batch, displays read them; a lock keeps both apart. Also writes `--metrics-json`,
atomically.
"""

import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ottla import __version__
from ottla.pipeline.jobs.port import BatchOutcome

_PLURAL: Final = re.compile(r"(?<=ch)es\b|(?<=[^s])s\b")


class JobProgress:
    """One job's figures since the start of this run."""

    def __init__(self, job: str, group: str) -> None:
        self.job = job
        self.group = group
        self.state = "starting"
        self.batches = 0
        self.rows_read = 0
        self.rows_written = 0
        self.duplicates = 0
        self.late = 0
        self.dead: Counter[str] = Counter()
        self.figures: Counter[str] = Counter()  # the job's own
        self.lag: int | None = None  # None: not known
        self.restarts = 0
        self.last_failure: str | None = None
        self.batch_ms: list[int] = []  # of the last batches
        self.busy_ms = 0
        self._lock = threading.Lock()

    def add(self, outcome: BatchOutcome, *, took_ms: int) -> None:
        with self._lock:
            self.batches += 1
            self.rows_read += outcome.rows_read
            self.rows_written += outcome.rows_written
            self.duplicates += outcome.duplicates
            self.late += outcome.late
            self.dead.update(outcome.dead)
            self.busy_ms += took_ms
            self.batch_ms = [*self.batch_ms[-19:], took_ms]
            self.figures.update(outcome.figures)

    def add_figures(self, outcome: BatchOutcome, *, took_ms: int) -> None:
        """For work after the last batch, which read nothing."""
        with self._lock:
            self.rows_written += outcome.rows_written
            self.figures.update(outcome.figures)
            self.busy_ms += took_ms

    def summary(self, seconds: float) -> str:
        """The run in one line, for its end."""
        parts = [f"{self.job} {self.state}: {counted(self.rows_read, 'events')} read"]
        parts.append(f"{counted(self.rows_written, 'rows')} written")
        for count, words in ((self.duplicates, "duplicates"), (self.late, "late"), (self.dead.total(), "dead")):
            if count:
                parts.append(counted(count, words))
        parts += [counted(count, name.replace("_", " ")) for name, count in sorted(self.figures.items()) if count]
        parts.append(f"{counted(self.batches, 'batches')} in {seconds:.1f} s")
        if self.lag:
            parts.append(f"lag {self.lag:,}")
        return ", ".join(parts)

    def document(self) -> dict[str, Any]:
        with self._lock:
            return {
                "state": self.state,
                "group": self.group,
                "batches": self.batches,
                "rows_read": self.rows_read,
                "rows_written": self.rows_written,
                "duplicates": self.duplicates,
                "late": self.late,
                "dead": self.dead.total(),
                "dead_by_class": dict(sorted(self.dead.items())),
                "figures": dict(sorted(self.figures.items())),
                "lag": self.lag,
                "restarts": self.restarts,
                "last_failure": self.last_failure,
                "last_batch_ms": self.batch_ms[-1] if self.batch_ms else None,
                "busy_ms": self.busy_ms,
            }


def counted(count: int, words: str) -> str:
    """`2 subjects judged`, `1 subject judged`."""
    return f"{count:,} {_PLURAL.sub('', words) if count == 1 else words}"


class MetricsFile:
    """Replaced as a whole with each change, so that a reader never sees half of it."""

    def __init__(self, path: Path | None, jobs: Iterable[JobProgress]) -> None:
        self._path = path
        self._jobs = list(jobs)
        self._started = time.monotonic()
        self._written: str | None = None

    def write(self) -> None:
        if self._path is None:
            return
        jobs = {progress.job: progress.document() for progress in self._jobs}
        as_text = json.dumps(jobs)
        if as_text == self._written:
            return
        document = {
            "pipeline_version": __version__,
            "updated_ms": time.time_ns() // 1_000_000,
            "running_ms": int((time.monotonic() - self._started) * 1000),
            "jobs": jobs,
        }
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}.new")
        fresh.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(fresh, self._path)
        self._written = as_text
