"""The end of a run: one verdict line in its colour, after the details and before what to look at."""

from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ottla.pipeline.demo.summary import print_failure, print_next, print_summary, print_verdict
from ottla.pipeline.demo.verdict import Problem, TopicRows, Verdict
from tests.pipeline.demo.figures_of_a_run import figures, job
from tests.pipeline.demo.shown_run import verdict

RED, GREEN, YELLOW = "\x1b[1;31m", "\x1b[1;32m", "\x1b[1;33m"


def console(*, width: int = 80) -> Console:
    return Console(
        file=StringIO(), force_terminal=True, color_system="standard", width=width, _environ={"TERM": "xterm"}
    )


def written(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def verdict_lines(shown: Verdict) -> list[str]:
    ours = console()
    print_verdict(ours, shown)
    return written(ours).strip().splitlines()


def test_a_run_in_which_all_holds_passes_in_green() -> None:
    assert verdict_lines(verdict()) == [
        f"{GREEN}PASSED  95 events stored once, 4 balances right, 9 of 9 cheats found\x1b[0m"
    ]


def test_what_does_not_hold_is_in_the_verdict_with_its_details_above() -> None:
    problems = [Problem("balances", "3 differ"), Problem("ledger", "1 entry twice"), Problem("ledger", "2 missing")]
    *details, line = verdict_lines(verdict()._replace(problems=problems))
    assert line == f"{RED}FAILED  balances, ledger\x1b[0m"
    assert [each.removeprefix("\x1b[31m").removesuffix("\x1b[0m") for each in details] == [
        "balances: 3 differ",
        "ledger: 1 entry twice",
        "ledger: 2 missing",
    ]


def test_a_run_that_was_stopped_before_all_was_sent_says_what_was_not_checked() -> None:
    rows = [TopicRows("ml_login_log", sent=100, collected=95, dead=2, expected=None)]
    (line,) = verdict_lines(verdict()._replace(rows=rows, score=None))
    assert line.startswith(f"{YELLOW}STOPPED EARLY  95 events stored once")
    ours = console()
    print_summary(ours, figures(), verdict()._replace(rows=rows, score=None))
    assert "not all sent" in written(ours)


def test_the_summary_has_the_lag_of_every_job_at_every_width() -> None:
    for width in (40, 60, 80, 200):
        ours = console(width=width)
        print_summary(ours, figures(jobs=[job("collect", lag=0), job("invite_fraud", lag=12_345)]), verdict())
        assert "lag" in written(ours)
        assert "12,345" in written(ours)


def test_a_process_that_died_is_the_verdict_with_the_logs_to_look_at() -> None:
    ours = console()
    print_failure(ours, Path("/tmp/run"), ["the broker died with code -9; the end of its log:\nlast words"])
    assert f"{RED}FAILED  the broker died with code -9\x1b[0m\nlogs: /tmp/run/broker.log" in written(ours)
    assert "last words" in written(ours)


def test_what_to_look_at_is_six_lines_at_most() -> None:
    ours = console(width=300)
    print_next(ours, Path("/tmp/run"), verdict(), page=Path("/tmp/run/score.html"), alerts=[])
    assert len(written(ours).splitlines()) <= 6
    assert "kcat" not in written(ours)


def test_sentences_wrap_between_words_and_commands_stay_whole_to_be_copied() -> None:
    ours = console(width=60)
    print_summary(ours, figures(), verdict())
    print_verdict(ours, verdict())
    print_next(ours, Path("/tmp/run-20261117T031139Z"), verdict(), page=Path("/tmp/run/score.html"), alerts=[])
    plain = [Text.from_ansi(line).plain for line in written(ours).splitlines()]
    commands = [line for line in plain if line.startswith("  ") and "ottla" in line]
    assert len(commands) == 4
    assert max(len(line) for line in plain if line not in commands) < 60
    at = next(number for number, line in enumerate(plain) if line.startswith("PASSED"))
    assert plain[at : at + 2] == ["PASSED  95 events stored once, 4 balances right, 9 of 9", "        cheats found"]


def test_in_a_file_every_sentence_is_one_line() -> None:
    file = StringIO()
    print_verdict(Console(file=file, width=30, _environ={}), verdict())
    assert file.getvalue().strip() == "PASSED  95 events stored once, 4 balances right, 9 of 9 cheats found"
