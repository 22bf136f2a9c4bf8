"""A step says something every few seconds, whether or not what it waits for does."""

from io import StringIO

import pytest
from rich.console import Console

from ottla.pipeline.demo.playing import NewMessages
from ottla.pipeline.demo.steps import StepLine, step
from ottla.pipeline.screen.heartbeat import Heartbeat, Silence


def plain_console() -> tuple[Console, StringIO]:
    written = StringIO()
    return Console(file=written, width=80, _environ={}), written


def test_without_a_terminal_a_step_that_is_silent_is_heard_of_every_five_seconds() -> None:
    console, written = plain_console()
    line = StepLine(console, "stop", now_s=100.0)
    line.doing = "stopping the jobs"
    for tenth in range(300):
        line.beat(100.0 + tenth / 10)
    line.finish(130.0)
    lines = written.getvalue().splitlines()
    assert lines[0] == "stop     stopping the jobs ... 5 s"
    assert [each.split()[-2] for each in lines[:-1]] == ["5", "10", "15", "20", "25"]
    assert lines[-1] == "stop     stopping the jobs  30.0 s"


def test_a_quick_step_is_one_line() -> None:
    console, written = plain_console()
    with step(console, "topics") as went_on:
        went_on("9 created, 4 partitions each")
    assert written.getvalue().startswith("topics   9 created, 4 partitions each  0.")
    assert len(written.getvalue().splitlines()) == 1


def test_a_step_that_fails_leaves_no_line() -> None:
    console, written = plain_console()
    with pytest.raises(OSError, match="no room"), step(console, "broker"):
        raise OSError("no room")
    assert written.getvalue() == ""


def test_what_happened_meanwhile_stays_above_the_line() -> None:
    console, written = plain_console()
    with step(console, "warm-up") as went_on:
        went_on("waiting")
        went_on.report("[collect] failed")
    first, last = written.getvalue().splitlines()
    assert first == "[collect] failed"
    assert last.startswith("warm-up  waiting  ")


def test_a_message_that_only_differs_in_figures_comes_once() -> None:
    messages = NewMessages()
    assert messages.among(["collect failed, again in 0.5 s", "collect failed, again in 1.0 s"]) == [
        "collect failed, again in 0.5 s"
    ]
    assert messages.among(["collect failed, again in 2.0 s", "collect is given up"]) == ["collect is given up"]


def test_what_a_beat_raises_is_raised_to_its_owner() -> None:
    def beat() -> None:
        raise BrokenPipeError

    heartbeat = Heartbeat(beat)
    heartbeat.__enter__()
    heartbeat._thread.join()
    with pytest.raises(BrokenPipeError):
        heartbeat.check()
    with pytest.raises(BrokenPipeError):
        heartbeat.__exit__(None)


def test_silence_is_counted_from_the_last_word() -> None:
    silence = Silence(0.0, most_s=8.0)
    assert [silence.is_too_long(now_s) for now_s in (7.9, 8.0)] == [False, True]
    silence.broken(8.0)
    assert not silence.is_too_long(15.9)
    assert silence.is_too_long(16.0)


class TerminalText(StringIO):
    """What a terminal gets."""

    def isatty(self) -> bool:
        return True


def test_on_a_narrow_terminal_a_step_loses_words_and_keeps_its_seconds() -> None:
    written = TerminalText()
    console = Console(file=written, width=60, color_system=None, force_terminal=True, _environ={"TERM": "xterm"})
    line = StepLine(console, "proof", now_s=100.0)
    line.doing = "counting rows, reconciling the ledger, scoring alerts and more"
    line.beat(117.0)
    assert written.getvalue().endswith("… ... 17 s")
    assert len(written.getvalue() + "^C") < 60
