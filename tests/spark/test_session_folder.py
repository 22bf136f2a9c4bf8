"""Where a session's own files lie: a plain name, on a disk that programs run from, and gone with the process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.session_folder import NoFolder, best_parent, is_plain, is_writable, plain_name, runs_programs

ODD = "a b é+@%20#x?y,z:w'q\"$HOME\\{a}[b]*\nend"


@pytest.mark.parametrize("odd", list(" é+@%#?,:'\"$\\\n{}[]*~"))
def test_a_name_with_anything_that_separates_or_is_escaped_is_not_plain(odd: str) -> None:
    assert not is_plain(Path("/data") / f"a{odd}b")
    assert is_plain(Path("/data/run-2026_01.d"))


def test_a_plain_folder_is_taken_before_one_with_an_odd_name(tmp_path: Path) -> None:
    for name in (ODD, "plain"):
        (tmp_path / name).mkdir()
    assert best_parent([tmp_path / "missing", tmp_path / ODD, tmp_path / "plain"]) == tmp_path / "plain"
    assert best_parent([tmp_path / ODD]) == tmp_path / ODD


def test_where_none_can_be_written_to_those_that_were_tried_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NoFolder, match=r"can be written to; tried .*missing, .*file"):
        best_parent([tmp_path / "missing", tmp_path / "file"])
    assert not is_writable(Path("/proc"))


def test_an_odd_folder_is_reached_by_a_plain_link(tmp_path: Path) -> None:
    odd, session = tmp_path / ODD, tmp_path / "session"
    odd.mkdir()
    session.mkdir()
    assert plain_name(session, session, link="work") == session
    (plain_name(odd, session, link="work") / "seen").touch()
    assert (odd / "seen").exists()
    assert is_plain(session / "work")


@pytest.mark.process
def test_it_goes_with_the_process_that_made_it_and_not_with_a_fork(tmp_path: Path) -> None:
    program = (
        "import os, sys; from ottla.spark.session_folder import make_session_folder;"
        "folder = make_session_folder(); child = os.fork();\n"
        "if not child: sys.exit()\n"
        "os.waitpid(child, 0); print(folder, folder.is_dir(), sep='\\n')"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    folder, was_there = done.stdout.splitlines()
    assert Path(folder).parent == tmp_path
    assert was_there == "True"
    assert list(tmp_path.iterdir()) == []


def test_a_usual_disk_runs_programs() -> None:
    assert runs_programs(Path(sys.prefix))


@pytest.mark.process
def test_a_disk_that_is_mounted_noexec_is_left_for_the_next(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a disk needs root and unshare")
    for name in ("noexec", "usual"):
        (tmp_path / name).mkdir()
    program = (
        "from pathlib import Path; from ottla.spark.session_folder import best_parent;"
        "print(best_parent([Path('noexec'), Path('usual')]).name, best_parent([Path('noexec')]).name)"
    )
    script = 'mount -t tmpfs -o noexec tmpfs noexec && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["usual", "noexec"], done.stderr
