"""Another Spark's packages in PYTHONPATH stay out of our commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.foreign_spark import holds_spark

PROGRAM = (
    "import sys; from ottla.spark.foreign_spark import set_aside_foreign_spark; set_aside_foreign_spark();"
    "import pyspark, py4j, mine; print(pyspark.__file__, py4j.__file__, sep='\\n')"
)


def make_spark(folder: Path) -> Path:
    for name in ("pyspark", "py4j"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
    return folder


def imported_from(program: str, *python_path: Path, **environment: str) -> list[str]:
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, python_path)), **environment}
    done = subprocess.run([sys.executable, "-c", program], env=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.process
def test_it_is_set_aside_and_other_entries_stay(tmp_path: Path) -> None:
    theirs, mine = make_spark(tmp_path / "theirs"), tmp_path / "mine"
    mine.mkdir()
    (mine / "mine.py").touch()
    found = imported_from(PROGRAM, theirs, tmp_path / "py4j-0.10-src.zip", mine)
    assert all(Path(each).is_relative_to(sys.prefix) for each in found), found
    # Of a process that the other Spark has started, it is the right one.
    found = imported_from(PROGRAM, theirs, mine, PYSPARK_GATEWAY_PORT="1")
    assert all(Path(each).is_relative_to(theirs) for each in found), found


@pytest.mark.process
def test_the_only_one_there_is_stays(tmp_path: Path) -> None:
    installed = next(entry for entry in sys.path if (Path(entry) / "pyspark" / "__init__.py").is_file())
    (tmp_path / "mine.py").touch()
    found = imported_from(PROGRAM, Path(installed), tmp_path)
    assert all(Path(each).is_relative_to(installed) for each in found), found


def test_packages_and_archives_of_spark_are_known(tmp_path: Path) -> None:
    assert holds_spark(make_spark(tmp_path / "theirs"))
    assert holds_spark(Path("/opt/spark/python/lib/py4j-0.10.9.9-src.zip"))
    assert not holds_spark(tmp_path)
    assert not holds_spark(Path("/opt/mine.zip"))
