"""The screen of a run without its processes: every step, the live view and the summary, with figures that are given.

A program, for tests that start it with a terminal or an environment of their own.
"""

import sys
from pathlib import Path

from ottla.pipeline.demo.live import LiveDisplay
from ottla.pipeline.demo.next_steps import watch_command
from ottla.pipeline.demo.steps import step
from ottla.pipeline.demo.summary import print_next, print_summary, print_verdict
from ottla.pipeline.demo.verdict import TopicRows, Verdict
from ottla.pipeline.ledger.reconcile import Report
from ottla.pipeline.scoring.score import Counts, Credits, Line, Score
from ottla.pipeline.screen.terminal import open_closed_descriptors, open_console
from tests.pipeline.demo.figures_of_a_run import EVENT_TIME_MS, alerts, figures


def verdict() -> Verdict:
    rows = [TopicRows("ml_login_log", sent=100, collected=95, dead=2, expected=95)]
    report = Report({"entries": 10, "balances": 4}, {"ledger": 1_000}, {}, [], 0)
    line = Line("invite_fraud", "all", "inviters", Counts(9, 0, 0), [60_000], 9)
    return Verdict(rows, report, Score({}, 10, [line], [], [], {}, 0.0, Credits(0, 0, 0)), [])


def main() -> None:
    open_closed_descriptors()
    console = open_console()
    run_dir = Path("data/Läufe … 1")
    with step(console, "broker") as went_on:
        went_on(f"listening, data in {run_dir}")
    with LiveDisplay(console, hint=lambda has_alerts: watch_command("127.0.0.1:9092", "ml_alert")) as display:
        for timed in reversed(alerts(30)):
            display.add_alert(timed.alert, event_time_ms=EVENT_TIME_MS)
        display.add_message("collect failed – starts again in 0.5 s")
        display.show(figures())
        if "--wait" in sys.argv:
            sys.stdin.readline()  # the terminal is resized meanwhile
            display.show(figures())
    print_summary(console, figures(), verdict())
    print_verdict(console, verdict())
    print_next(console, run_dir, verdict(), page=run_dir / "score.html", alerts=[each.alert for each in alerts(3)])


if __name__ == "__main__":
    main()
