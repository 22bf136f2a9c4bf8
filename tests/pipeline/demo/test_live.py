"""When the display of a run is due."""

from io import StringIO

from rich.console import Console

from ottla.pipeline.demo.figures import SENDING
from ottla.pipeline.demo.live import LiveDisplay
from tests.pipeline.demo.figures_of_a_run import figures, job


def test_a_change_of_what_is_done_is_due_at_once_and_the_same_is_not() -> None:
    display = LiveDisplay(Console(file=StringIO(), _environ={}), hint=lambda has_alerts: "")
    assert display.is_due(SENDING)
    display.show(figures())
    assert not display.is_due(SENDING)
    assert display.is_due("all sent, jobs catch up")


def test_the_last_line_has_the_lag_that_it_was_given() -> None:
    written = StringIO()
    display = LiveDisplay(Console(file=written, _environ={}), hint=lambda has_alerts: "")
    display.show(figures(jobs=[job("collect", lag=0), job("invite_fraud", lag=None)], doing="done"))
    assert written.getvalue().endswith("lag: collect 0, invite_fraud ?\n")
