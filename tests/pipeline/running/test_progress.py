"""Figures of a run: counted, written whole, shown on a terminal and nowhere else."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ottla.pipeline.jobs.port import BatchOutcome
from ottla.pipeline.running.live import LiveLine
from ottla.pipeline.running.progress import JobProgress, MetricsFile


def counted() -> JobProgress:
    progress = JobProgress("collect", "group")
    progress.add(BatchOutcome(10, 6, duplicates=1, late=2, dead={"future": 1, "negative": 2}), took_ms=40)
    progress.add(BatchOutcome(5, 4, dead={"future": 1}), took_ms=30)
    progress.state = "running"
    progress.lag = 7
    return progress


def test_batches_add_up_in_the_metrics_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    file = MetricsFile(path, [counted()])
    file.write()
    document = json.loads(path.read_text())
    job = document["jobs"]["collect"]
    expected = {"batches": 2, "rows_read": 15, "rows_written": 10, "duplicates": 1, "late": 2, "dead": 4, "lag": 7}
    assert {name: job[name] for name in expected} == expected
    assert job["dead_by_class"] == {"future": 2, "negative": 2}
    assert (job["last_batch_ms"], job["busy_ms"], job["group"]) == (30, 70, "group")
    assert [each.name for each in tmp_path.iterdir()] == ["metrics.json"]
    # Nothing new: not written again.
    path.unlink()
    file.write()
    assert not path.exists()


def test_the_summary_says_what_there_was_and_leaves_out_what_there_was_not() -> None:
    line = counted().summary(2.0)
    expected = "collect running: 15 events read, 10 rows written, 1 duplicate, 2 late, 4 dead, 2 batches in 2.0 s"
    assert line == f"{expected}, lag 7"
    assert JobProgress("x", "g").summary(1.0) == "x starting: 0 events read, 0 rows written, 0 batches in 1.0 s"


def test_the_summary_counts_one_of_a_kind_in_the_singular() -> None:
    progress = JobProgress("collect", "group")
    progress.add(BatchOutcome(1, 1, figures={"alerts": 1, "subjects_judged": 1}), took_ms=40)
    expected = "collect starting: 1 event read, 1 row written, 1 alert, 1 subject judged, 1 batch in 2.0 s"
    assert progress.summary(2.0) == expected


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("term", "is_redrawn"), [("xterm", True), ("dumb", False), ("", False)])
def test_a_terminal_shows_a_line_for_each_job_and_one_that_can_not_be_redrawn_only_messages(
    term: str, is_redrawn: bool
) -> None:
    written = Terminal()
    with LiveLine(Console(file=written, width=60, height=24, _environ={"TERM": term})) as live:
        live.show([counted()])
        live.report("[it] happened")
    assert "[it] happened" in written.getvalue()
    assert ("collect" in written.getvalue()) is is_redrawn


def test_a_file_has_only_messages() -> None:
    written = StringIO()
    with LiveLine(Console(file=written, _environ={"TERM": "xterm"})) as live:
        live.show([counted()])
        live.report("[it] happened")
    assert written.getvalue() == "[it] happened\n"
