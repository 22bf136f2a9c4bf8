"""Signals to `make run` at moments of its whole life: it ends as it should, leaving no process and no file behind."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.pipeline.demo.playing import ALL_SENT, SENDING
from tests.marked_processes import Marker
from tests.processes import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.spark]

DEMO = [sys.executable, "-m", "ottla.pipeline.demo", "--accounts", "60", "--seconds", "2"]
PATIENCE_S = 600.0
KILLED_WITHIN_S = 10.0  # one that was sent SIGKILL is there for a moment yet
AFTER_STAGE_MAX_S = 0.3
# A cache for the next run, and what Java writes for tools that look at it.
KEPT = re.compile(r"ottla-java-.*|hsperfdata_.*")


class Run:
    """One run with folders of its own for whatever it may leave."""

    def __init__(self, folder: Path, marker: Marker, *arguments: str) -> None:
        self.marker = marker
        self.run_dir = folder / "run"
        self.places = [folder / "temporary", folder / "current"]
        for place in self.places:
            place.mkdir()
        self.process = subprocess.Popen(
            [*DEMO, "--run-dir", str(self.run_dir), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder / "current",
            env=marker.environment({**os.environ, "TMPDIR": str(folder / "temporary")}),
            process_group=0,
        )

    def handles_signals(self) -> bool:
        """Python alone has a handler for SIGINT, but none for SIGTERM."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        caught = re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)

    def starts_broker(self) -> bool:
        return (self.run_dir / "broker.log").exists()

    def has_broker(self) -> bool:
        return (self.run_dir / "broker.ready").exists()

    def starts_jobs(self) -> bool:
        return (self.run_dir / "jobs.log").exists()

    def has_tables(self) -> bool:
        return (self.run_dir / "metrics.json").exists()

    def launches_java(self) -> bool:
        return (self.run_dir / "store" / "checkpoint" / "spark.log").exists()

    def has_java(self) -> bool:
        return bool(self.marker.processes("java"))

    def has_workers(self) -> bool:
        return any("pyspark.daemon" in each.command for each in self.marker.processes())

    def has_first_batches(self) -> bool:
        if not self.has_tables():
            return False
        jobs = json.loads((self.run_dir / "metrics.json").read_text(encoding="utf-8"))["jobs"]
        return bool(jobs) and all(job["batches"] > 0 for job in jobs.values())

    def is_proving(self) -> bool:
        return (self.run_dir / "truth.json").exists()

    def reach(self, stage: Callable[["Run"], bool], *, then_s: float = 0.0) -> None:
        """Until it is there, and so much longer."""
        eventually(lambda: stage(self) or self.process.poll() is not None, within_s=PATIENCE_S)
        assert self.process.poll() is None, self.process.communicate()
        try:
            self.process.wait(timeout=then_s)
        except subprocess.TimeoutExpired:
            pass

    def read_until(self, words: str) -> None:
        assert self.process.stdout is not None
        assert any(words in line for line in iter(self.process.stdout.readline, "")), "it ended"

    def send(self, number: signal.Signals) -> None:
        """As a terminal does: to the whole group."""
        os.killpg(self.process.pid, number)

    def end(self) -> str:
        """All that it has printed."""
        output, errors = self.process.communicate(timeout=PATIENCE_S)
        return output + errors

    def assert_nothing_is_left(self, *, within_s: float = KILLED_WITHIN_S) -> None:
        eventually(lambda: self.marker.processes() == [], within_s=within_s)
        left = [file for place in self.places for file in place.iterdir() if not KEPT.fullmatch(file.name)]
        assert left == []


@pytest.fixture
def marker() -> Iterator[Marker]:
    marker = Marker()
    yield marker
    marker.kill_all()


@pytest.mark.parametrize(
    "stage",
    [
        Run.handles_signals,
        Run.starts_broker,
        Run.has_broker,
        Run.starts_jobs,
        Run.has_tables,
        Run.launches_java,
        Run.has_java,
        Run.has_workers,
        Run.has_first_batches,
        Run.is_proving,
    ],
)
def test_ctrl_c_ends_a_run_and_leaves_nothing(stage: Callable[[Run], bool], tmp_path: Path, marker: Marker) -> None:
    run = Run(tmp_path, marker)
    run.reach(stage, then_s=random.Random(stage.__name__).uniform(0, AFTER_STAGE_MAX_S))
    run.send(signal.SIGINT)
    printed = run.end()
    assert run.process.returncode == 130, printed
    assert "Traceback" not in printed
    run.assert_nothing_is_left()


@pytest.mark.parametrize("stage", [Run.launches_java, Run.has_workers])
def test_ctrl_c_again_and_again_ends_it_at_once(stage: Callable[[Run], bool], tmp_path: Path, marker: Marker) -> None:
    run = Run(tmp_path, marker)
    run.reach(stage)
    for _ in range(4):
        run.send(signal.SIGINT)
        try:
            run.process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    printed = run.end()
    assert run.process.returncode == 130, printed
    assert "Traceback" not in printed
    eventually(lambda: marker.processes() == [], within_s=KILLED_WITHIN_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("stage", [Run.starts_broker, Run.launches_java])
def test_a_run_that_is_told_to_end_leaves_nothing(
    stage: Callable[[Run], bool], number: signal.Signals, tmp_path: Path, marker: Marker
) -> None:
    run = Run(tmp_path, marker)
    run.reach(stage)
    os.kill(run.process.pid, number)
    printed = run.end()
    assert run.process.returncode == 128 + number, printed
    assert "Traceback" not in printed
    run.assert_nothing_is_left()


@pytest.mark.parametrize("stage", [Run.starts_broker, Run.launches_java, Run.has_workers])
def test_what_a_killed_run_has_started_ends_by_itself(
    stage: Callable[[Run], bool], tmp_path: Path, marker: Marker
) -> None:
    run = Run(tmp_path, marker)
    run.reach(stage)
    run.process.kill()
    run.process.communicate(timeout=PATIENCE_S)
    run.assert_nothing_is_left(within_s=PATIENCE_S)


def test_ctrl_c_after_everything_was_sent_cuts_nothing_short(tmp_path: Path, marker: Marker) -> None:
    run = Run(tmp_path, marker)
    run.read_until(SENDING)
    # The jobs stand still until the traffic is through: then the rest is theirs alone.
    held = [each.pid for each in marker.processes("java")]
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    run.read_until(ALL_SENT)
    run.send(signal.SIGINT)
    for pid in held:
        os.kill(pid, signal.SIGCONT)
    printed = run.end()
    assert run.process.returncode == 130, printed
    assert json.loads((run.run_dir / "truth.json").read_text(encoding="utf-8"))
    assert (run.run_dir / "score.html").exists()
    run.assert_nothing_is_left()
