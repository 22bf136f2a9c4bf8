"""The job `income_and_tasks`: credits to the ledger, task events to the progress of tasks, each event once.

Skips bad records: `collect` sends them to dead letters.
"""

from typing import TYPE_CHECKING, Final

from ottla.pipeline.events.parsing import Parser, ParsingRules, parsed_schema
from ottla.pipeline.events.payloads import ToDriver
from ottla.pipeline.jobs.port import BatchOutcome, JobBatch, JobContext
from ottla.pipeline.ledger.postings import LOOKED_AT, POSTINGS, Postings, entries_of, steps_of
from ottla.pipeline.topics import CREDIT, TASK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "income_and_tasks"


def open_job(context: JobContext) -> "IncomeAndTasks":
    return IncomeAndTasks(context)


class IncomeAndTasks:
    """Keeps nothing between batches."""

    name = NAME
    topics = (CREDIT.name, TASK.name)
    group = f"ottla-{NAME}"

    def __init__(self, context: JobContext) -> None:
        self._store = context.store
        parser = Parser(ParsingRules.of(context.settings), now_ms=None, schema=parsed_schema(LOOKED_AT))
        # Few columns of few topics: they go to the driver in one Spark job, instead of one for each table.
        self._to_driver = ToDriver(Postings(parser), POSTINGS)
        self.preparation = self._to_driver.preparation

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        rows = self._to_driver.receive_rows(frame)
        posted = self._store.post_arrow(entries_of(rows), steps_of(rows), batch.id)
        return BatchOutcome(
            rows_read=rows.num_rows,
            rows_written=posted.entries + posted.tasks_done,
            duplicates=posted.duplicates,
        )
