"""What Spark's processes see of the caller's environment."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

from ottla.spark.environment import applied, cluster_environment, local_environment, utf8_locale

HOSTILE = {
    "SPARK_HOME": "/nonexistent/spark",
    "SPARK_CONF_DIR": "/nonexistent/conf",
    "SPARK_LOCAL_DIRS": "/nonexistent/dirs",
    "SPARK_REMOTE": "sc://nowhere.invalid",
    "PYSPARK_PYTHON": "/nonexistent/python",
    "PYSPARK_DRIVER_PYTHON": "jupyter",
    "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
    "HADOOP_CONF_DIR": "/nonexistent/hadoop",
    "_JAVA_OPTIONS": "-Xmx1m",
}


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    home = tmp_path / "ours" / "pyspark"
    home.mkdir(parents=True)
    (home / "__init__.py").touch()
    return home


def test_for_a_local_session_what_is_said_of_another_spark_does_not_hold(spark_home: Path) -> None:
    given = {**HOSTILE, "PATH": "/bin", "JAVA_HOME": "/nonexistent/java", "JAVA_TOOL_OPTIONS": "-Dproxy=x"}
    chosen = local_environment(
        given, spark_home=spark_home, conf_dir=Path("/conf"), python=Path("/python"), java_home=Path("/java")
    )
    assert chosen.ignored == tuple(sorted(HOSTILE))
    assert chosen.variables == {
        "PATH": "/bin",
        "JAVA_TOOL_OPTIONS": "-Dproxy=x",
        "JAVA_HOME": "/java",
        "SPARK_HOME": str(spark_home),
        "SPARK_CONF_DIR": "/conf",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": "/python",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "LC_ALL": utf8_locale(),
    }


def test_an_environment_without_any_of_it_loses_nothing(spark_home: Path) -> None:
    given = {"PATH": "/bin", "PYTHONPATH": f"/my own:{spark_home.parent}"}
    chosen = local_environment(
        given, spark_home=spark_home, conf_dir=Path("/conf"), python=Path("/python"), java_home=None
    )
    assert chosen.ignored == ()
    assert chosen.variables["PYTHONPATH"] == given["PYTHONPATH"]
    assert "JAVA_HOME" not in chosen.variables


def test_a_pyspark_of_another_installation_is_taken_out_of_the_python_path(spark_home: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "pyspark").mkdir(parents=True)
    (theirs / "pyspark" / "__init__.py").touch()
    given = {"PYTHONPATH": f"{theirs}:/mine:{theirs}/lib/py4j-0.10.9.7-src.zip:/nonexistent"}
    chosen = local_environment(
        given, spark_home=spark_home, conf_dir=Path("/conf"), python=Path("/python"), java_home=None
    )
    assert chosen.variables["PYTHONPATH"] == "/mine:/nonexistent"
    assert chosen.ignored == ("PYTHONPATH",)


def test_for_a_cluster_what_the_user_has_set_stays(spark_home: Path, tmp_path: Path) -> None:
    chosen = cluster_environment(HOSTILE, spark_home=spark_home, java_home=None)
    assert chosen.ignored == ("SPARK_HOME",)
    assert {name: chosen.variables[name] for name in HOSTILE} == {**HOSTILE, "SPARK_HOME": str(spark_home)}

    submit = tmp_path / "installed" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.touch()
    chosen = cluster_environment({"SPARK_HOME": str(tmp_path / "installed")}, spark_home=spark_home, java_home=None)
    assert chosen.variables["SPARK_HOME"] == str(tmp_path / "installed")
    assert chosen.variables["PYSPARK_PYTHON"] == sys.executable


def test_the_process_has_its_own_environment_back_after_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/theirs")
    before = dict(os.environ)
    with contextlib.suppress(KeyError), applied({"SPARK_HOME": "/ours", "NEW": "1"}):
        assert dict(os.environ) == {"SPARK_HOME": "/ours", "NEW": "1"}
        raise KeyError
    assert dict(os.environ) == before
