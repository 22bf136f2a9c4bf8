"""`ottla pipeline run` in folders with odd names, with a hostile environment, and where `/tmp` is mounted noexec."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.pipeline.topics import TOPIC_NAMES
from tests.pipeline.running.driver_process import PATIENCE_S, DriverProcess
from tests.pipeline.running.rig import Pipeline, check_tables, expected_of, noisy_events, toml
from tests.processes import BrokerProcess

# No fixture `spark`: the processes have their own.
pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.slow]

ODD = "a b é+@%20#x?y,z:w'q\"$HOME${env:PATH}\\{a}[b]*\nend"
HOSTILE = {
    "SPARK_HOME": "/nonexistent/spark",
    "SPARK_CONF_DIR": "/nonexistent/conf",
    "SPARK_LOCAL_DIRS": "/nonexistent/dirs",
    "SPARK_LOCAL_IP": "192.0.2.1",
    "SPARK_REMOTE": "sc://nowhere.invalid",
    "PYSPARK_PYTHON": "/nonexistent/python",
    "PYSPARK_DRIVER_PYTHON": "jupyter",
    "PYSPARK_SUBMIT_ARGS": "--master yarn --deploy-mode cluster pyspark-shell",
    "HADOOP_CONF_DIR": "/nonexistent/hadoop",
    "JAVA_HOME": "/nonexistent/java",
    "JAVA_TOOL_OPTIONS": "-javaagent:/nonexistent.jar",
    "_JAVA_OPTIONS": "-Xmx1m",
    "PYTHONSTARTUP": "/nonexistent/startup.py",
    "PYTHONHASHSEED": "7",
}


@pytest.fixture
def pipeline(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> Pipeline:
    folder = tmp_path / ODD
    folder.mkdir()
    (folder / "pipeline.toml").write_text(toml())
    pipeline = Pipeline(start_broker().address, folder)
    pipeline.make_topics()
    pipeline.send(noisy_events(seed=3, accounts=10))
    return pipeline


def environment(**given: str) -> dict[str, str]:
    """Ours, in the plain C locale."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONDONT"))}
    return {**kept, "LC_ALL": "C", **given}


def test_a_folder_of_any_name_and_a_hostile_environment_change_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    session_folders = tmp_path / "tmp"
    session_folders.mkdir()
    foreign = tmp_path / "foreign"
    for name in ("pyspark", "py4j"):
        (foreign / name).mkdir(parents=True)
        (foreign / name / "__init__.py").write_text("raise RuntimeError('of another Spark')\n")
    around = sorted(each.name for each in tmp_path.iterdir())
    arguments = ("--jobs", "collect", "--config", str(pipeline.folder / "pipeline.toml"), "--once")
    driver = DriverProcess(
        pipeline.bootstrap,
        pipeline.folder,
        *arguments,
        environment=environment(**HOSTILE, TMPDIR=str(session_folders), PYTHONPATH=str(foreign)),
    )
    try:
        assert driver.wait() == 0, driver.log
    finally:
        driver.close()
    assert driver.finished("collect") >= 1
    check_tables(pipeline, expected_of(pipeline.records(*TOPIC_NAMES)))
    assert sorted(each.name for each in tmp_path.iterdir()) == around
    assert list(session_folders.iterdir()) == []
    (reported,) = (line for line in _spark_log(pipeline).splitlines() if "are ignored" in line)
    harmless = ("JAVA_HOME", "PYTHONSTARTUP", "PYTHONHASHSEED")
    assert all(name in reported for name in ("PYTHONPATH", *HOSTILE) if name not in harmless), reported


def test_a_disk_for_temporary_files_that_runs_no_programs_is_no_hindrance(
    pipeline: Pipeline,
) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a disk needs root and unshare")
    # Without a Java on the path it is the packaged one, which is started by a script of ours.
    tools = pipeline.folder / "tools"
    tools.mkdir()
    for tool in (*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()):
        if tool.name not in ("java", "javac") and not (tools / tool.name).is_symlink():
            (tools / tool.name).symlink_to(tool)
    command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", "--bootstrap", pipeline.bootstrap]
    command += ["--store-path", "store", "--checkpoint", "checkpoint", "--config", "pipeline.toml"]
    command += ["--jobs", "collect", "--once"]
    script = (
        'set -e; mount --bind "$1" /mnt; for each in /tmp /var/tmp; do mount -t tmpfs -o noexec tmpfs "$each"; done; '
        'cd /mnt; shift; export PATH=/mnt/tools; exec "$@"'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(pipeline.folder), *command],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    check_tables(pipeline, expected_of(pipeline.records(*TOPIC_NAMES)))


def _spark_log(pipeline: Pipeline) -> str:
    return (pipeline.folder / "checkpoint" / "spark.log").read_text(encoding="utf-8")
