"""`make run` in small: broker, traffic and Spark as processes; what was planted is found, nothing is left behind."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import eventually, processes_with

pytestmark = [pytest.mark.process, pytest.mark.slow]

DEMO = [sys.executable, "-m", "ottla.pipeline.demo", "--accounts", "60", "--seconds", "2"]
PATIENCE_S = 600


def environment_without_java(tmp_path: Path) -> dict[str, str]:
    """A home of its own, and a path with all that is on ours but a Java."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            if tool.name not in ("java", "javac") and not os.path.lexists(tools / tool.name):
                (tools / tool.name).symlink_to(tool)
    assert shutil.which("java", path=str(tools)) is None
    return {"HOME": str(tmp_path), "PATH": str(tools)}


@pytest.mark.spark
def test_a_run_without_java_on_the_machine_ends_by_itself_with_all_as_planted(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    done = subprocess.run(
        [*DEMO, "--run-dir", str(run_dir)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=environment_without_java(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "all as planted" in done.stdout
    assert "PASSED  " in done.stdout
    assert "alert  " in done.stdout  # as they came, with a reason
    # What it suggests to type works as it is printed.
    verdict, about, *commands = done.stdout.splitlines()[-7:]
    assert (verdict[:8], about.startswith("All files are in")) == ("PASSED  ", True)
    assert [shlex.split(each)[1] for each in commands] == ["pipeline", "pipeline", "pipeline", "serve", "consume"]
    for command in commands[:3]:
        subprocess.run(command, shell=True, check=True, capture_output=True, timeout=PATIENCE_S)
    assert (run_dir / "score.html").stat().st_size > 0
    assert (run_dir / "store" / "checkpoint" / "spark.log").exists()
    figures = json.loads((run_dir / "metrics.json").read_text(encoding="utf-8"))
    assert figures["jobs"]["collect"]["rows_read"] > 0
    eventually(lambda: not processes_with(str(run_dir)), within_s=60)


def test_a_broker_that_can_not_start_is_said_with_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "broker").write_text("in the way")
    done = subprocess.run(
        [*DEMO, "--run-dir", str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1
    assert "the broker did not start" in done.stderr
    assert "broker" in done.stderr
