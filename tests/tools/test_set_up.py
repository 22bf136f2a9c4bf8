"""Set-up says what pip is at, on a terminal and elsewhere, and ends as pip does."""

import sys
from io import StringIO
from pathlib import Path

import pytest

from tools.set_up import Progress, Screen, announcement, pip_command, run_pip

# As pip 24 prints it with `--progress-bar raw`; "..." stands for what is of no interest.
COUNTED = """\
Obtaining file:///home/somebody/ottla
  Installing build dependencies: started
  Installing build dependencies: finished with status 'done'
  Preparing editable metadata (pyproject.toml): started
Collecting click<9,>=8.1 (from ottla==0.1.0)
  Downloading click-8.5.1-py3-none-any.whl (126 kB)
Progress 0 of 126000
Progress 126000 of 126000
Collecting google-crc32c<2,>=1.5 (from ottla==0.1.0)
  Using cached google_crc32c-1.9.0-cp313-cp313-manylinux2014_x86_64.manylinux_2_17_x86_64.whl (36 kB)
Collecting pyspark<5,>=4.1 (from pyspark[sql]<5,>=4.1; extra == "pipeline"->ottla==0.1.0)
  Downloading pyspark-4.3.0.tar.gz (455.9 MB)
Progress 0 of 455900000
Progress 120000000 of 455900000
Progress 455900000 of 455900000
  Preparing metadata (pyproject.toml): started
Building wheels for collected packages: ottla, pyspark
  Building editable for ottla (pyproject.toml): started
  Building wheel for pyspark (pyproject.toml): started
Installing collected packages: pytz, py4j, uvloop
Successfully installed click-8.5.1 ...
""".splitlines()


def texts(lines: list[str], progress: Progress) -> list[str]:
    """What is shown after each line, without repetitions."""
    shown: list[str] = []
    for line in lines:
        progress.feed(line)
        text = progress.text(7)
        if text not in shown[-1:]:
            shown.append(text)
    return shown


def test_progress_follows_what_pip_prints() -> None:
    assert texts(COUNTED, Progress(expected_mb=610, counts_bytes=True)) == [
        "    7 s: starting pip",
        "    7 s: preparing ottla",
        "    7 s: looking for click (1 package so far)",
        "    7 s: looking for google-crc32c (2 packages so far)",
        "    7 s: taking google_crc32c from pip's cache (2 packages so far)",
        "    7 s: looking for pyspark (3 packages so far)",
        "    7 s: downloading pyspark, 456 MB (3 packages so far)",
        "    7 s: downloading pyspark, 0 of 456 MB (3 packages so far)",
        "    7 s: downloading pyspark, 120 of 456 MB (3 packages, 120 of about 610 MB so far)",
        "    7 s: downloading pyspark, 456 of 456 MB (3 packages, 456 of about 610 MB so far)",
        "    7 s: preparing pyspark (3 packages, 456 of about 610 MB so far)",
        "    7 s: building ottla (3 packages, 456 of about 610 MB so far)",
        "    7 s: building pyspark (3 packages, 456 of about 610 MB so far)",
        "    7 s: unpacking 3 packages",
    ]


def test_a_pip_that_counts_no_bytes_is_followed_by_the_sizes_that_it_names() -> None:
    lines = [line for line in COUNTED if not line.startswith("Progress")]
    shown = texts(lines, Progress(expected_mb=610))
    assert "    7 s: downloading pyspark, 456 MB (3 packages, 456 of about 610 MB so far)" in shown


def test_a_terminal_has_one_line_that_changes_in_place() -> None:
    written = StringIO()
    screen = Screen(written, is_terminal=True, columns=12)
    for now_s, text in enumerate(("one two three", "four", "four", "five")):
        screen.show(text, now_s)
    screen.say("done")
    screen.clear()
    assert written.getvalue() == "\rone two thr\rfour       \rfive\r    \rdone\n"


def test_elsewhere_a_line_comes_before_ten_seconds_of_silence_are_over_and_no_more_often() -> None:
    written = StringIO()
    screen = Screen(written, is_terminal=False)
    for half_seconds in range(2 * 30):
        screen.show(f"at {half_seconds / 2}", half_seconds / 2)
    assert written.getvalue() == "at 9.0\nat 18.0\nat 27.0\n"


def test_what_is_announced_is_what_will_be_installed() -> None:
    run, _ = announcement(wants_all=False, has_run=False, is_update=False)
    rest, _ = announcement(wants_all=True, has_run=True, is_update=False)
    everything, mb = announcement(wants_all=True, has_run=False, is_update=False)
    assert "Spark" in run
    assert "tests" not in run
    assert "Spark" not in rest
    assert "Spark" in everything
    assert f"About {mb} MB to download" in everything
    assert announcement(wants_all=True, has_run=True, is_update=True)[1] is None


def test_an_older_pip_is_not_asked_for_bytes() -> None:
    python = Path("python")
    assert "raw" in pip_command(python, "pipeline", (24, 1))
    assert "off" in pip_command(python, "pipeline", (23, 2))


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "code", "shown"),
    [
        ("print('Collecting click')", 0, ""),
        ("import sys; print('WARNING: retrying', file=sys.stderr)", 0, "WARNING: retrying\n"),
        ("import sys; print('Collecting é'); sys.exit('ERROR: no é\\n  × why')", 1, "ERROR: no é\n  × why\n"),
        ("print('a last word'); raise SystemExit(3)", 3, "a last word\n"),
    ],
    ids=["sound", "warns", "fails", "fails silently"],
)
def test_a_failure_shows_what_pip_said_and_keeps_its_exit_code(program: str, code: int, shown: str) -> None:
    written = StringIO()
    assert run_pip([sys.executable, "-c", program], Progress(), Screen(written, is_terminal=False)) == code
    assert written.getvalue() == shown
