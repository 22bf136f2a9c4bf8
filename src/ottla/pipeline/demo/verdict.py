"""Whether a run did what it should: compares rows with what was sent, balances with the ledger, alerts with cheats.

Reads the store and the planted truth; prints nothing.
"""

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from ottla.pipeline.demo.job_process import JobFigures
from ottla.pipeline.demo.observing import Observer
from ottla.pipeline.jobs.known import JOBS
from ottla.pipeline.ledger.reconcile import KINDS, Report, reconcile
from ottla.pipeline.scoring.score import Score, score_alerts
from ottla.pipeline.tables import BALANCE, DEAD_EVENT_COUNT, DEVICE_ALERT, INVITE_ALERT, LOG_TABLES
from ottla.pipeline.topics import TOPICS
from ottla.pipeline.viewing.table_view import whole

# Far below what the detectors reach on such traffic: less means that something is broken.
PRECISION_MIN: Final = 0.8
RECALL_MIN: Final = 0.7
DETECTORS: Final = ("device_switching", "invite_fraud")


class Problem(NamedTuple):
    """A failed check: its name, what was seen and what was expected."""

    check: str
    details: str


class TopicRows(NamedTuple):
    """A topic and its table. `expected` is what the truth says; None if not all of the traffic was sent."""

    topic: str
    sent: int
    collected: int
    dead: int
    expected: int | None

    @property
    def duplicates(self) -> int:
        return self.sent - self.dead - self.collected

    @property
    def is_right(self) -> bool:
        return self.expected is None or self.collected == self.expected


class Verdict(NamedTuple):
    """The result of all checks; `problems` is empty if all hold."""

    rows: Sequence[TopicRows]
    report: Report
    score: Score | None
    problems: Sequence[Problem]

    @property
    def is_judged(self) -> bool:
        """Whether all of the traffic was sent, so that the truth says what must be stored."""
        return all(each.expected is not None for each in self.rows)


def judge(
    observer: Observer, *, sent: Mapping[str, int], jobs: Sequence[JobFigures], truth: Mapping[str, Any] | None
) -> Verdict:
    """`truth` is None if not all of the traffic was sent: then not everything planted is there."""
    rows = _rows(observer, sent, truth)
    report = reconcile(observer.store)
    problems = [
        Problem(
            f"rows of {each.topic}",
            f"{each.sent:,} sent, {each.collected:,} stored, {each.dead:,} dead; expected {each.expected:,} stored",
        )
        for each in rows
        if not each.is_right
    ]
    problems += _miscounts(rows, jobs, truth)
    problems += [Problem("ledger", f"{count:,} {KINDS[kind]}") for kind, count in report.counts.items()]
    score = None
    if truth is not None:
        problems += _wrong_balances(observer, truth)
        if all(name in JOBS for name in DETECTORS):
            score = score_alerts(truth, observer.rows(DEVICE_ALERT), observer.rows(INVITE_ALERT))
            problems += poor_scores(score)
    return Verdict(rows, report, score, problems)


def _rows(observer: Observer, sent: Mapping[str, int], truth: Mapping[str, Any] | None) -> list[TopicRows]:
    dead_counts = whole(observer.store, DEAD_EVENT_COUNT, ["topic", "events"])
    found = []
    for topic in TOPICS:
        collected = whole(observer.store, LOG_TABLES[topic.table], ["event_id"]).num_rows
        of_topic = dead_counts.filter(pc.equal(dead_counts.column("topic"), topic.name))
        dead = int(pc.sum(of_topic.column("events"), min_count=0).as_py())
        expected = None if truth is None else truth["events"][topic.name]
        found.append(TopicRows(topic.name, sent[topic.name], collected, dead, expected))
    return found


def _miscounts(rows: Sequence[TopicRows], jobs: Sequence[JobFigures], truth: Mapping[str, Any] | None) -> list[Problem]:
    """Compares the figures of collect with what was sent, and the bad events with the planted ones."""
    problems = []
    collect = next(each for each in jobs if each.job == "collect")
    sent = sum(each.sent for each in rows)
    accounted = collect.rows_written + collect.duplicates + collect.dead
    # A batch that ran again may have been counted in part.
    if not collect.restarts and not collect.rows_read == accounted == sent:
        problems.append(
            Problem(
                "counts of collect",
                f"{sent:,} events were sent; collect read {collect.rows_read:,}: {collect.rows_written:,} written, "
                f"{collect.duplicates:,} duplicates, {collect.dead:,} dead",
            )
        )
    if truth is not None:
        noise = truth["noise"]
        planted = (noise["duplicates"], sum(noise["bad"].values()))
        found = (sum(each.duplicates for each in rows), sum(each.dead for each in rows))
        if found != planted:
            problems.append(
                Problem("planted events", f"(duplicates, dead) are {found} by the tables; {planted} were planted")
            )
    return problems


def _wrong_balances(observer: Observer, truth: Mapping[str, Any]) -> list[Problem]:
    rows = whole(observer.store, BALANCE, ["account_id", "balance"])
    stored = dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    wrong = [
        name
        for name in truth["accounts"].keys() | stored.keys()
        if stored.get(name, 0) != truth["accounts"].get(name, {"balance": 0})["balance"]
    ]
    if not wrong:
        return []
    return [Problem("balances", f"{len(wrong):,} differ from what was generated; one of them is {min(wrong)}'s")]


def poor_scores(score: Score) -> list[Problem]:
    problems = []
    for line in score.detectors:
        precision, recall = line.counts.precision, line.counts.recall
        if (precision is not None and precision < PRECISION_MIN) or (recall is not None and recall < RECALL_MIN):
            problems.append(
                Problem(
                    f"alerts of {line.detector}",
                    f"{line.counts.right} right, {line.counts.wrong} wrong, {line.counts.missed} missed; expected at "
                    f"least a precision of {PRECISION_MIN} and a recall of {RECALL_MIN}",
                )
            )
    return problems


def write_score(score: Score, run_dir: Path) -> Path:
    """Writes the page, and the plots beside it as files; returns the page's path."""
    # Its warnings about a home that it can't write to, or a plot without points, are no concern of the run.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from ottla.pipeline.scoring.page import page
    from ottla.pipeline.scoring.plots import plots
    from ottla.pipeline.scoring.words import title

    scores = {title(score): score}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        images = plots(scores)
    folder = run_dir / "plots"
    folder.mkdir(exist_ok=True)
    for name, content in images.items():
        (folder / name).write_bytes(content)
    path = run_dir / "score.html"
    path.write_text(page(scores, images), encoding="utf-8")
    return path
