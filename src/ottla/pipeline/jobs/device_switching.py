"""The job `device_switching`: logins to facts by device and day, and alerts for devices that many accounts share.

Skips bad records: `collect` sends them to dead letters.
"""

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from ottla.pipeline.detection.device_step import device_step
from ottla.pipeline.detection.intake import LOGIN_COLUMNS, logins_of
from ottla.pipeline.detection.thresholds import load_thresholds
from ottla.pipeline.events.parsing import ParsingRules, parsed_to_driver
from ottla.pipeline.jobs.port import BatchOutcome, JobBatch, JobContext
from ottla.pipeline.jobs.verdicts import Verdicts, figures_of
from ottla.pipeline.retention import kept_from_ms
from ottla.pipeline.tables import DEVICE_ALERT
from ottla.pipeline.topics import LOGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "device_switching"


def open_job(context: JobContext) -> "DeviceSwitching":
    return DeviceSwitching(context)


class DeviceSwitching:
    """Keeps nothing between batches: the facts behind a verdict are in the store."""

    name = NAME
    topics = (LOGIN.name,)
    group = f"ottla-{NAME}"

    def __init__(self, context: JobContext) -> None:
        self._store = context.store
        # One small topic, few columns: all of it goes to the driver in one Spark job.
        self._to_driver = parsed_to_driver(ParsingRules.of(context.settings), ("error_class", *LOGIN_COLUMNS))
        self.preparation = self._to_driver.preparation
        self._limits = load_thresholds(context.settings.get_text("detection.thresholds") or None).device_switching
        self._verdicts = Verdicts(context, NAME, DEVICE_ALERT)

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        rows = self._to_driver.receive_rows(frame)
        sound = rows.filter(pc.is_null(rows.column("error_class")))
        high_ms = pc.max(sound.column("event_time")).as_py() or 0
        outcome = device_step(
            self._store,
            logins_of(sound),
            self._limits,
            detected_ms=high_ms,
            alerts_from_ms=kept_from_ms(self._store, DEVICE_ALERT.name) or 0,
        )
        written = self._verdicts.carry_out(outcome, batch.id)
        return BatchOutcome(rows.num_rows, written, figures=figures_of(outcome))
