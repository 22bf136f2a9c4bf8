"""The screen of a run on the terminals and in the environments that callers have: no traceback, nothing torn."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

PROGRAM = [sys.executable, "-m", "tests.pipeline.demo.shown_run"]
ROOT = Path(__file__).parents[3]
ALT_SCREEN = "\x1b[?1049h"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")
PATIENCE_S = 120


def environment(**changes: str | None) -> dict[str, str]:
    """Ours without what says something of terminals and languages, with these."""
    ours = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": "/"}
    return {name: value for name, value in {**ours, **changes}.items() if value is not None}


def run_piped(*arguments: str, **changes: str | None) -> str:
    done = subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        env=environment(**changes),
        cwd=ROOT,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == b""
    assert done.returncode == 0
    return done.stdout.decode(changes.get("PYTHONIOENCODING") or "utf-8")


class Terminal:
    """A terminal of our own, with the program on it."""

    def __init__(self, columns: int, rows: int, *arguments: str, **changes: str | None) -> None:
        self._ours, theirs = pty.openpty()
        modes = termios.tcgetattr(theirs)
        modes[3] &= ~termios.ECHO  # or what we type would be among what is read
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        self.resize(columns, rows)
        self._process = subprocess.Popen(
            [*PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**changes), cwd=ROOT
        )
        os.close(theirs)
        self.written = b""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, words: bytes | None) -> bytes:
        """What comes until `words` are there; with None until the end."""
        found = b""
        while words is None or words not in found:
            try:
                new = os.read(self._ours, 65536)
            except OSError:  # the program has ended
                break
            if not new:
                break
            found += new
        self.written += found
        return found

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> str:
        self.read_until(None)
        assert self._process.wait(timeout=PATIENCE_S) == 0
        os.close(self._ours)
        return self.written.decode(errors="replace")


def frames(written: str) -> list[list[str]]:
    """Each frame of the live view as lines without colours."""
    found = [frame.split("\x1b[?25h")[0] for frame in written.split("\x1b[H")[1:]]
    lines = [[CONTROL.sub("", line).rstrip() for line in frame.split("\n")] for frame in found]
    return [frame for frame in lines if any(frame)]


@pytest.mark.parametrize(("columns", "rows"), [(40, 15), (60, 24), (80, 24), (200, 50)])
def test_on_a_terminal_the_view_has_as_many_lines_as_it_and_none_is_longer(columns: int, rows: int) -> None:
    written = Terminal(columns, rows).end()
    (frame,) = frames(written)
    assert len(frame) == rows
    assert max(len(line) for line in frame) < columns
    assert any("u29" in line for line in frame)
    # The terminal comes back as it was, and the end stays on it.
    assert written.count(ALT_SCREEN) == written.count("\x1b[?1049l") == 1
    after = CONTROL.sub("", written.split("\x1b[?1049l")[1])
    assert after.index("collect failed") < after.index("Events by topic") < after.index("PASSED  95 events")
    assert after.index("PASSED") < after.index("ottla pipeline explain")


def test_a_terminal_that_is_resized_is_redrawn_for_its_new_size() -> None:
    terminal = Terminal(120, 40, "--wait")
    terminal.read_until(b"try  ")
    terminal.resize(60, 20)
    terminal.type(b"\n")
    first, second = frames(terminal.end())[0], frames(terminal.written.decode())[-1]
    assert len(first) == 40
    assert (len(second), max(len(line) for line in second) < 60) == (20, True)


def test_columns_of_the_environment_make_the_view_smaller_and_never_larger() -> None:
    (narrow,) = frames(Terminal(100, 30, COLUMNS="50", LINES="20").end())
    assert (len(narrow), max(len(line) for line in narrow) < 50) == (20, True)
    (as_it_is,) = frames(Terminal(60, 20, COLUMNS="300", LINES="90").end())
    assert (len(as_it_is), max(len(line) for line in as_it_is) < 60) == (20, True)


@pytest.mark.parametrize("term", ["dumb", "unknown", None])
def test_a_terminal_that_can_not_be_redrawn_has_plain_lines(term: str | None) -> None:
    written = Terminal(80, 24, TERM=term).end()
    assert "\x1b" not in written
    assert "alert  Tue 02 Sep 2025 14:26  inviter u29" in written
    assert "lag: collect 109,123" in written
    assert "PASSED" in written


def test_no_color_leaves_the_colours_out() -> None:
    written = Terminal(80, 24, NO_COLOR="1").end()
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", written)
    assert ALT_SCREEN in written


def test_a_pipe_has_plain_lines_and_colours_only_when_they_are_forced() -> None:
    assert "\x1b" not in run_piped()
    forced = run_piped(FORCE_COLOR="1")
    assert ALT_SCREEN not in forced
    assert "\x1b[1;32mPASSED" in forced


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "iso8859-15", "cp437"])
def test_a_terminal_that_does_not_know_a_character_is_no_error(encoding: str) -> None:
    text = run_piped(PYTHONIOENCODING=encoding)
    assert "Läufe" in text or r"L\xe4ufe" in text
    written = Terminal(80, 24, PYTHONIOENCODING=encoding).end()
    assert "Traceback" not in written
    (frame,) = frames(written)
    assert len(frame) == 24
    assert "====" in frame[1]


@pytest.mark.parametrize(("name", "value"), [("LANG", "C"), ("LC_ALL", "C"), ("LC_ALL", "POSIX"), ("LANG", None)])
def test_the_c_locale_has_a_view_in_ascii_and_none_at_all_has_not(name: str, value: str | None) -> None:
    written = Terminal(80, 24, **{"LANG": None, name: value}).end()
    assert "Traceback" not in written
    (frame,) = frames(written)
    assert ("====" in frame[1]) is (value is not None)


@pytest.mark.parametrize(("columns", "width"), [(None, 80), ("1", 20), ("0", 80), ("60", 60), ("x", 80)])
def test_tables_fit_the_columns_of_the_environment(columns: str | None, width: int) -> None:
    text = run_piped(COLUMNS=columns)
    table = text[text.index("Jobs\n") : text.index("Alerts against")]
    assert max(len(line) for line in table.splitlines()) < width


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_descriptors_are_no_error(redirection: str, tmp_path: Path) -> None:
    command = f'"$@" {redirection}'
    done = subprocess.run(
        ["sh", "-c", command, "sh", *PROGRAM],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_pipe_that_nobody_reads_any_more_ends_the_run_without_a_traceback() -> None:
    command = '"$@" | head -1'
    done = subprocess.run(
        ["sh", "-c", command, "sh", *PROGRAM],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.stderr == b""
    assert done.stdout.startswith(b"broker   listening")
