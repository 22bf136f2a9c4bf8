"""Tables, names and bytes as they are shown, in a pipe and on a terminal."""

import os
import pty
import re
import subprocess
import sys

import pytest

from ottla.cli.output import human_bytes, number, print_names, print_table

LONG = "x" * 300


def test_a_table_in_a_pipe_is_plain_aligned_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(
        ("NAME", number("COUNT"), "LIST"), [(LONG, 7, (1, 2)), ("b", None, ()), ("", True, "[red]")], title="t:"
    )
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "t:",
        f"{'NAME':300}  COUNT  LIST",
        f"{LONG}      7  1,2",
        f"{'b':300}      -  -",
        f"{'-':300}    yes  [red]",
    ]


def test_names_in_a_pipe_stand_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_names(("NAME", "MORE"), [("a", 1), ("b", 2)])
    assert capsys.readouterr().out == "a\nb\n"


@pytest.mark.parametrize(
    ("size_bytes", "expected"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")]
)
def test_bytes_are_shown_in_the_unit_that_fits(size_bytes: int, expected: str) -> None:
    assert human_bytes(size_bytes) == expected


@pytest.mark.process
def test_on_a_narrow_terminal_cells_are_folded_not_cut() -> None:
    ours, theirs = pty.openpty()
    code = f"from ottla.cli.output import print_table; print_table(('NAME', 'N'), [('{'y' * 100}', '[b]1[/b]')])"
    environment = {**os.environ, "COLUMNS": "60", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", code], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert shown.count("y") == 100
    assert "[b]1[/b]" in shown  # a cell is text, not markup


@pytest.mark.process
def test_headings_break_only_at_hyphens_where_a_table_does_not_fit() -> None:
    titles = (
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    )
    cells = ("billing", "orders", 0, 12345, 23456, 11111, "ottla-cli-" + "0f" * 16, "127.0.0.1", "ottla-cli")
    columns = f"[number(t) if isinstance(c, int) else t for t, c in zip({titles!r}, {cells!r})]"
    code = f"from ottla.cli.output import number, print_table; print_table({columns}, [{cells!r}])"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", code], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", os.read(ours, 65536).decode()).splitlines()
    os.close(ours)
    assert max(len(line.rstrip()) for line in lines) <= 80
    words = " ".join(lines).split()
    assert {
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-",
        "LOG-",
        "END-",
        "OFFSET",
        "LAG",
        "CONSUMER-",
        "HOST",
        "CLIENT-",
    } <= {*words}
    assert {"0", "12345", "23456", "11111"} <= {*words}, "figures stay whole"


@pytest.mark.process
def test_rich_is_not_imported_for_a_pipe() -> None:
    code = "from ottla.cli.output import *; print_table(('A',), [(1,)]); import sys; print('rich' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.splitlines()[-1] == "False"


@pytest.mark.process
def test_a_reader_that_goes_away_ends_the_command_without_a_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "ottla.cli.main", "completion", "zsh"]
    finished = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (finished.returncode, finished.stderr) == (1, "")
