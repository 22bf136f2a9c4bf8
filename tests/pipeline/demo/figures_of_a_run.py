"""Figures as a run has them, for tests of what is shown."""

from ottla.pipeline.demo.child import Usage
from ottla.pipeline.demo.figures import SENDING, Figures, TimedAlert
from ottla.pipeline.demo.job_process import JobFigures
from ottla.pipeline.demo.observing import Books, SeenAlert
from ottla.pipeline.latency import LatencyHistogram

EVENT_TIME_MS = 1_756_794_360_000
JOBS = ("collect", "income_and_tasks", "device_switching", "invite_fraud", "phone_region")


def job(name: str, **changes: object) -> JobFigures:
    figures = JobFigures(name, f"ottla-{name}", "running", 6, 105_728, 105_697, 31, 14, 2, 109_123, 0, 1_023, 6_400)
    return figures._replace(**changes)  # type: ignore[arg-type]


def figures(**changes: object) -> Figures:
    ack = LatencyHistogram()
    ack.add(17.0)
    now = Figures(
        at_s=10.0,
        elapsed_s=10.0,
        sending_s=10.0,
        share=0.5,
        planned_s=20.0,
        doing=SENDING,
        event_time_ms=EVENT_TIME_MS,
        sent=131_328,
        sent_bytes=36_300_000,
        ack=ack,
        jobs=[job(name) for name in JOBS],
        books=Books(2_957, 8_928, 113_304),
        alerts=41,
        broker=Usage(23_000_000, 1.0),
        spark=Usage(2_192_000_000, 20.0),
    )
    return now._replace(**changes)  # type: ignore[arg-type]


def alerts(count: int) -> list[TimedAlert]:
    """The newest first."""
    return [
        TimedAlert(
            EVENT_TIME_MS,
            SeenAlert(
                f"a{number}", "invite_fraud", f"inviter u{number} scores 0.80: within ±20 " + "a long reason; " * 12
            ),
        )
        for number in reversed(range(count))
    ]
