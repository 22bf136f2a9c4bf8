"""Which Python set-up takes: real shell, Pythons that only say who they are."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "find_python.sh"
pytestmark = pytest.mark.process


class Machine:
    """A PATH of its own, with Pythons of the given versions in it, and a project's folder."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.project = folder / "a b é"
        self.bin.mkdir()
        self.project.mkdir()
        for tool in ("cat", "sh"):
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)

    def add(self, path: Path, version: str, *, has_venv: bool = True) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        checks = "" if has_venv else "case $2 in *venv*) exit 1 ;; esac\n"
        path.write_text(f"#!/bin/sh\n{checks}case $2 in *print*) echo {version} ;; esac\n")
        path.chmod(0o755)
        return path

    def add_to_path(self, name: str, version: str, *, has_venv: bool = True) -> Path:
        return self.add(self.bin / name, version, has_venv=has_venv)

    def add_venv(self, version: str, *, made_in: Path | None = None) -> None:
        self.add(self.project / ".venv" / "bin" / "python", version)
        (self.project / ".venv" / ".installed").write_text(str(made_in or self.project))

    def find(self, python: str | Path | None = None) -> tuple[int, str, str]:
        environment = {"PATH": str(self.bin)} | ({"PYTHON": str(python)} if python else {})
        done = subprocess.run(
            [shutil.which("sh") or "sh", str(SCRIPT)],
            cwd=self.project,
            env=environment | {"LANG": os.environ.get("LANG", "C")},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.strip(), done.stderr.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_supported_one_in_path_is_taken(machine: Machine) -> None:
    machine.add_to_path("python3", "3.15.2")
    machine.add_to_path("python3.13", "3.13.0", has_venv=False)
    machine.add_to_path("python3.12", "3.12.1")
    assert machine.find() == (0, "python3.12", "")


def test_none_that_is_supported_is_refused_in_one_message(machine: Machine) -> None:
    machine.add_to_path("python3", "3.15.2")
    machine.add_to_path("python", "2.7.18")
    code, found, message = machine.find()
    assert (code, found) == (1, "")
    assert message.startswith(
        "Set-up works with Python 3.11 to 3.14, and PATH has none of them (python3 is 3.15.2, python is 2.7.18)."
    )
    assert "make setup PYTHON=" in message


def test_one_without_venv_is_refused_with_the_package_that_has_it(machine: Machine) -> None:
    machine.add_to_path("python3", "3.11.2", has_venv=False)
    code, _, message = machine.find()
    assert code == 1
    assert "apt install python3-venv" in message


def test_a_good_environment_stays(machine: Machine) -> None:
    machine.add_to_path("python3", "3.14.1")
    machine.add_venv("3.12.1")
    assert machine.find() == (0, ".venv/bin/python", "")


@pytest.mark.parametrize("version", ["3.10.9", "3.15.2"])
def test_an_environment_of_another_python_does_not_stay(machine: Machine, version: str) -> None:
    machine.add_to_path("python3", "3.14.1")
    machine.add_venv(version)
    assert machine.find() == (0, "python3", "")


def test_an_environment_that_was_made_in_another_folder_does_not_stay(machine: Machine, tmp_path: Path) -> None:
    machine.add_to_path("python3", "3.14.1")
    machine.add_venv("3.14.1", made_in=tmp_path / "elsewhere")
    assert machine.find() == (0, "python3", "")


def test_a_named_version_replaces_an_environment_of_another(machine: Machine) -> None:
    machine.add_to_path("python3", "3.14.1")
    machine.add_venv("3.14.1")
    named = machine.add(machine.project / "my pythons" / "python", "3.12.1")
    assert machine.find(named) == (0, str(named), "")
    assert machine.find("python3") == (0, ".venv/bin/python", "")


def test_a_named_one_that_is_not_supported_is_refused(machine: Machine) -> None:
    machine.add_to_path("python3", "3.14.1")
    new = machine.add_to_path("python3.15", "3.15.2")
    assert machine.find(new) == (1, "", f"PYTHON={new} is Python 3.15.2. Set-up works with Python 3.11 to 3.14.")
    missing = machine.bin / "nothing"
    assert (
        machine.find(missing)[2] == f"PYTHON={missing} is no Python that starts. Set-up works with Python 3.11 to 3.14."
    )
