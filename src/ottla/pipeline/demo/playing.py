"""One run from start to end: set-up, traffic with the live view, catching up, the proof.

Owns the processes. Ctrl-C ends the traffic, and the jobs catch up with what was sent; a second Ctrl-C ends everything
at once. After a Ctrl-C when all is sent, all checks are still made.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from rich.console import Console

from ottla.clients.admin import Admin
from ottla.clients.errors import ClientError
from ottla.pipeline.demo.child import ChildProcess, Usage
from ottla.pipeline.demo.feed import Feed
from ottla.pipeline.demo.figures import SENDING, Figures
from ottla.pipeline.demo.job_process import JobFigures, JobProcess
from ottla.pipeline.demo.live import LiveDisplay
from ottla.pipeline.demo.local_broker import LocalBroker
from ottla.pipeline.demo.next_steps import watch_command
from ottla.pipeline.demo.observing import Books, Observer
from ottla.pipeline.demo.run_signals import RunSignals
from ottla.pipeline.demo.steps import Step, step
from ottla.pipeline.demo.summary import print_failure, print_next, print_summary, print_verdict
from ottla.pipeline.demo.verdict import judge, write_score
from ottla.pipeline.detection.alerts import ALERT_TOPIC
from ottla.pipeline.jobs.known import JOBS
from ottla.pipeline.topic_creation import create_app_topics
from ottla.pipeline.topics import DEFAULT_PARTITIONS
from ottla.pipeline.traffic.events import Event
from ottla.pipeline.traffic.sending import EventSender

INTERRUPTED: Final = 130
ALL_SENT: Final = "all sent, jobs catch up"
_STOPPING: Final = "jobs catch up with what was sent; Ctrl-C again ends at once"
_INTERRUPTED_WORDS: Final = "interrupted"
_TRIGGER_MS: Final = 2_000
_MEASURE_EVERY: Final = 16
_LOOK_EVERY_EVENTS: Final = 64
_EARLY_MAX_S: Final = 0.002
_NAP_S: Final = 0.02
_OBSERVE_EVERY_S: Final = 1.0
_FINISH_TIMEOUT_MS: Final = 20_000
_CATCH_UP_TIMEOUT_S: Final = 300
_FIRST_WATCHED: Final = "ml_login_log"  # until there is a topic with alerts
_ENDED: Final = "ended"
# Sent before the clock starts: every job's first batch starts Spark's Python processes, which is part of the set-up.
_FIRST_EVENTS: Final = 400
_FIRST_BATCHES_S: Final = 180
_ASK_CLUSTER_MS: Final = 10_000
# An endless run keeps only the last data: topics by size, log tables by days. The ledger keeps all, as it must.
_FOREVER_TOPIC_CONFIGS: Final = (("retention.bytes", str(32 * 1024 * 1024)), ("segment.bytes", str(8 * 1024 * 1024)))
_FOREVER_SETTINGS: Final = "[retention]\ndays = 14\n"
_LOOKS_PER_LAG: Final = 4  # a lag from before a batch, beside what the batch has read, would count its records in both
_FIGURES: Final = re.compile(r"\d+")
# Spark gives a Python process ten seconds to start, which a busy machine may exceed: try again.
_SETTINGS: Final = "[restarts]\nmax = 40\nbackoff_max_ms = 2000\n"


class Demo:
    """For one `run`."""

    def __init__(self, console: Console, run_dir: Path, feed: Feed) -> None:
        self._console = console
        self._run_dir = run_dir
        self._feed = feed
        self._signals = RunSignals(hurry=self._hurry)
        self._processes: list[ChildProcess] = []
        self._is_all_sent = False
        self._problems: list[str] = []
        self._messages = NewMessages()
        self._observed_at_s = 0.0
        self._books = Books(0, 0, 0)
        self._usage: tuple[Usage | None, Usage | None] = (None, None)
        self._traffic_s: float | None = None
        self._lags: dict[str, int | None] = {}  # by group, once all is sent

    def run(self) -> int:
        """The exit code. Raises StartFailed, ClientError or StoreError."""
        with self._signals:
            return self._run()

    @contextmanager
    def _cleaning_up(self) -> Iterator[ExitStack]:
        """The callbacks on the stack run to their ends, whatever signals come meanwhile."""
        with ExitStack() as stack:
            try:
                yield stack
            finally:
                self._signals.begin_clean_up()

    def _run(self) -> int:
        with self._cleaning_up() as stack:
            broker = LocalBroker(self._run_dir)
            self._processes.append(broker.process)
            stack.callback(broker.stop)
            with step(self._console, "broker") as went_on:
                broker.start(lambda: went_on("starting"))
                went_on(f"listening on {broker.address}")
            client = {"bootstrap.servers": broker.address, "client.id": "ottla-demo"}
            admin = stack.enter_context(Admin({**client, "default.api.timeout.ms": _ASK_CLUSTER_MS}))
            with step(self._console, "topics") as went_on:
                configs = _FOREVER_TOPIC_CONFIGS if self._feed.is_forever else ()
                made = create_app_topics(admin, partitions=DEFAULT_PARTITIONS, configs=configs)
                went_on(f"{len(made)} created, {DEFAULT_PARTITIONS} partitions each")
            if self._is_interrupted:
                return INTERRUPTED
            jobs = JobProcess(
                self._run_dir, broker.address, trigger_ms=_TRIGGER_MS, settings_file=self._settings_file()
            )
            self._processes.append(jobs.process)
            # If all goes well it was asked to stop before; this is for when it doesn't.
            stack.callback(jobs.process.end_now)
            with step(self._console, "jobs") as went_on:
                jobs.start(went_on, give_up=lambda: self._is_interrupted)
                went_on(
                    _INTERRUPTED_WORDS
                    if self._is_interrupted
                    else f"{len(JOBS)} streaming queries in one Spark session"
                )
            if self._is_interrupted:
                return INTERRUPTED
            observer = Observer(jobs.store_dir, admin)
            stack.callback(observer.close)
            sender = EventSender(client, measure_every=_MEASURE_EVERY)
            stack.callback(sender.close)
            events = self._feed.events()
            with step(self._console, "warm-up") as went_on:
                self._warm_up(events, sender, broker, jobs, observer, went_on)
                if self._is_interrupted:
                    went_on(_INTERRUPTED_WORDS)
            if self._is_interrupted:
                return INTERRUPTED
            figures = self._play(events, sender, broker, jobs, observer)
            return self._conclude(figures, sender, broker, jobs, observer)

    def _warm_up(
        self,
        events: Iterator[Event],
        sender: EventSender,
        broker: LocalBroker,
        jobs: JobProcess,
        observer: Observer,
        went_on: Step,
    ) -> None:
        for event in islice(events, _FIRST_EVENTS):
            sender.send(event)
        sender.finish(_FINISH_TIMEOUT_MS, give_up=lambda: not broker.is_running)
        deadline_s = time.monotonic() + _FIRST_BATCHES_S
        while not self._is_over(broker, jobs) and time.monotonic() < deadline_s:
            figures = jobs.figures()
            had = sum(each.batches > 0 for each in figures)
            if had == len(figures) and self._has_caught_up(broker, jobs, observer):
                went_on("every job has finished its first batch")
                return
            for message in self._messages.among(jobs.new_messages()):
                went_on.report(message)
            went_on(f"first batch finished by {had} of {len(figures)} jobs")
            time.sleep(0.1)

    def _play(
        self, events: Iterator[Event], sender: EventSender, broker: LocalBroker, jobs: JobProcess, observer: Observer
    ) -> Figures:
        began_s = time.monotonic()
        self._feed.start_clock()
        with LiveDisplay(
            self._console,
            hint=lambda has_alerts: watch_command(broker.address, ALERT_TOPIC if has_alerts else _FIRST_WATCHED),
        ) as display:

            def look(doing: str, *, is_last: bool = False) -> Figures | None:
                return self._look(
                    display, sender, broker, jobs, observer, began_s=began_s, doing=doing, is_last=is_last
                )

            for event in events:
                is_over = False
                while not is_over and (
                    (early_s := self._feed.early_s(event, elapsed_s=time.monotonic() - began_s)) > _EARLY_MAX_S
                ):
                    time.sleep(min(early_s, _NAP_S))
                    look(SENDING)
                    is_over = self._is_over(broker, jobs)
                if is_over:
                    break
                sender.send(event)
                if sender.sent_count % _LOOK_EVERY_EVENTS == 0:
                    look(SENDING)
                    if self._is_over(broker, jobs):
                        break
            else:
                self._is_all_sent = True
            self._traffic_s = time.monotonic() - began_s
            sender.finish(_FINISH_TIMEOUT_MS, give_up=lambda: not broker.is_running)
            self._catch_up(broker, jobs, observer, lambda: look(_STOPPING if self._is_interrupted else ALL_SENT))
            figures = look("done", is_last=True)
            assert figures is not None
            return figures

    def _is_over(self, broker: LocalBroker, jobs: JobProcess) -> bool:
        return self._is_interrupted or not broker.is_running or not jobs.is_running

    def _catch_up(self, broker: LocalBroker, jobs: JobProcess, observer: Observer, look: Callable[[], object]) -> None:
        """Waits until every job's group is at the ends of its topics."""
        deadline_s = time.monotonic() + _CATCH_UP_TIMEOUT_S
        while broker.is_running and jobs.is_running:
            if self._has_caught_up(broker, jobs, observer):
                return
            if time.monotonic() > deadline_s:
                self._problems.append(f"the jobs did not catch up with the topics within {_CATCH_UP_TIMEOUT_S} s")
                return
            for _ in range(_LOOKS_PER_LAG):
                time.sleep(0.05)
                look()

    def _has_caught_up(self, broker: LocalBroker, jobs: JobProcess, observer: Observer) -> bool:
        try:
            self._lags = observer.lags([each.group for each in jobs.figures()])
        except ClientError:
            if broker.is_running:
                raise
            return False  # it died meanwhile, which is reported elsewhere
        return all(lag == 0 for lag in self._lags.values())

    def _job_figures(self, jobs: JobProcess) -> list[JobFigures]:
        """As the jobs write them; when all is sent, with the lag that we measure: theirs is some seconds old."""
        figures = jobs.figures()
        if self._traffic_s is not None:
            figures = [each._replace(lag=self._lags.get(each.group, each.lag)) for each in figures]
        return figures if jobs.is_running else [each._replace(state=_ENDED) for each in figures]

    def _look(
        self,
        display: LiveDisplay,
        sender: EventSender,
        broker: LocalBroker,
        jobs: JobProcess,
        observer: Observer,
        *,
        began_s: float,
        doing: str,
        is_last: bool,
    ) -> Figures | None:
        now_s = time.monotonic()
        if is_last or now_s - self._observed_at_s >= _OBSERVE_EVERY_S:
            self._observed_at_s = now_s
            self._usage = (broker.process.usage(), jobs.process.usage())
            self._books = observer.books()
            for alert in observer.new_alerts():
                display.add_alert(alert, event_time_ms=self._feed.event_time_ms)
            for message in self._messages.among(jobs.new_messages()):
                display.add_message(message)
        if not is_last and not display.is_due(doing):
            return None
        figures = Figures(
            at_s=now_s,
            elapsed_s=now_s - began_s,
            sending_s=(now_s - began_s) if self._traffic_s is None else self._traffic_s,
            share=self._feed.share,
            planned_s=self._feed.seconds,
            doing=doing,
            event_time_ms=self._feed.event_time_ms,
            sent=sender.sent_count,
            sent_bytes=sum(count.size_bytes for count in sender.sent.values()),
            ack=sender.ack_latency,
            jobs=self._job_figures(jobs),
            books=self._books,
            alerts=observer.alert_count,
            broker=self._usage[0],
            spark=self._usage[1],
        )
        display.show(figures)
        return figures

    def _conclude(
        self, figures: Figures, sender: EventSender, broker: LocalBroker, jobs: JobProcess, observer: Observer
    ) -> int:
        if not broker.is_running:
            self._problems.append(
                f"the broker died with code {broker.process.exit_code}; the end of its log:\n"
                f"{broker.process.log_tail()}"
            )
        if not jobs.is_running:
            self._problems.append(f"the Spark jobs ended with code {jobs.process.exit_code}; {jobs.last_words()}")
        if sender.first_refusal is not None:
            self._problems.append(f"{sender.refused_count:,} records were refused: {sender.first_refusal}")
        if self._problems:
            print_failure(self._console, self._run_dir, self._problems)
            return INTERRUPTED if self._is_interrupted else 1
        with step(self._console, "stop") as went_on:
            went_on("stopping the jobs")
            jobs.stop()
            went_on("jobs stopped")
        page = None
        with step(self._console, "proof") as went_on:
            went_on("counting rows, reconciling the ledger, scoring alerts")
            truth = self._feed.truth() if self._is_all_sent else None
            sent = {name: count.records for name, count in sender.sent.items()}
            verdict = judge(observer, sent=sent, jobs=jobs.figures(), truth=truth)
            if truth is not None:
                (self._run_dir / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
            if verdict.score is not None:
                went_on("drawing plots")
                page = write_score(verdict.score, self._run_dir)
            went_on("rows and ledger checked" if verdict.score is None else "rows, ledger and alerts checked")
        print_summary(self._console, figures._replace(jobs=self._job_figures(jobs)), verdict)
        print_verdict(self._console, verdict)
        print_next(self._console, self._run_dir, verdict, page=page, alerts=observer.alerts())
        if self._is_interrupted:
            return INTERRUPTED
        return 1 if verdict.problems else 0

    def _settings_file(self) -> Path:
        path = self._run_dir / "pipeline.toml"
        path.write_text(_SETTINGS + (_FOREVER_SETTINGS if self._feed.is_forever else ""), encoding="utf-8")
        return path

    @property
    def _is_interrupted(self) -> bool:
        return self._signals.is_interrupted

    def _hurry(self) -> None:
        for process in self._processes:
            process.hurry()


class NewMessages:
    """The messages of the jobs of one run that are new: a job that fails again and again says the same.

    Of messages that differ in figures alone, the first is enough: all of them are in the log of the jobs.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def among(self, messages: Iterable[str]) -> list[str]:
        new = []
        for message in messages:
            kind = _FIGURES.sub("", message)
            if kind not in self._seen:
                self._seen.add(kind)
                new.append(message)
        return new
