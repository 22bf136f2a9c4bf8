"""The state of a run at one moment, and the rates between two moments."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Final, NamedTuple

from ottla.pipeline.demo.child import Usage
from ottla.pipeline.demo.job_process import JobFigures
from ottla.pipeline.demo.observing import Books, SeenAlert
from ottla.pipeline.latency import LatencyHistogram
from ottla.pipeline.screen.job_table import JobRow

SENDING: Final = "sending"
_CHINA: Final = timezone(timedelta(hours=8))  # the app's
_RUNNING: Final = "running"


class Figures(NamedTuple):
    """Counts are since the start of the run."""

    at_s: float
    elapsed_s: float
    sending_s: float  # of it, until all was sent
    share: float | None  # of the traffic that is sent, from 0 to 1; None for a run that goes on
    planned_s: float  # for all of it
    doing: str
    event_time_ms: int
    sent: int
    sent_bytes: int
    ack: LatencyHistogram
    jobs: Sequence[JobFigures]
    books: Books
    alerts: int
    broker: Usage | None
    spark: Usage | None


class TimedAlert(NamedTuple):
    """An alert, and the event time when it was first seen."""

    event_time_ms: int
    alert: SeenAlert


def job_rows(figures: Figures, earlier: Figures) -> list[JobRow]:
    """Rates are since `earlier`."""
    before = {each.job: each.rows_read for each in earlier.jobs}
    return [
        JobRow(
            job=each.job,
            events_per_s=(each.rows_read - before.get(each.job, 0)) / span_s(figures, earlier),
            rows_read=each.rows_read,
            rows_written=each.rows_written,
            lag=each.lag,
            last_batch_ms=each.last_batch_ms,
            batches=each.batches,
            busy_ms=each.busy_ms,
            duplicates=each.duplicates,
            late=each.late,
            dead=each.dead,
            restarts=each.restarts,
            state=_state(each, is_sending=figures.doing == SENDING),
        )
        for each in figures.jobs
    ]


def send_rate(figures: Figures, earlier: Figures) -> float:
    return (figures.sent - earlier.sent) / span_s(figures, earlier)


def cpu_percent(now: Usage, before: Usage, *, span_s: float) -> float:
    """Of one core: two busy cores are 200."""
    return max(0.0, 100 * (now.cpu_seconds - before.cpu_seconds) / span_s)


def span_s(figures: Figures, earlier: Figures) -> float:
    return max(figures.at_s - earlier.at_s, 0.001)


def percentiles(latency: LatencyHistogram) -> str:
    middle, high = latency.percentile_ms(50), latency.percentile_ms(99)
    return "-" if middle is None or high is None else f"p50 {middle:.1f} ms, p99 {high:.1f} ms"


def clock_words(event_time_ms: int, *, has_year: bool = True) -> str:
    moment = datetime.fromtimestamp(event_time_ms / 1000, _CHINA)
    return moment.strftime("%a %d %b %Y %H:%M" if has_year else "%a %d %b %H:%M")


def _state(job: JobFigures, *, is_sending: bool) -> str:
    """When all is sent, a running job either lags or is done."""
    if job.state != _RUNNING or is_sending or job.lag is None:
        return job.state
    return "catching up" if job.lag else "caught up"
