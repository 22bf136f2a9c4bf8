"""The job `income_and_tasks`: credits to the ledger, task events to the progress of tasks, each event once.

Bad events are left out: they are the dead letters of `collect`.
"""

from typing import TYPE_CHECKING, Final

from ottla.pipeline.events.parsing import ParsingRules, parse
from ottla.pipeline.jobs.port import BatchOutcome, JobBatch, JobContext
from ottla.pipeline.ledger.postings import LOOKED_AT, entries_of, postings, steps_of
from ottla.pipeline.topics import CREDIT, TASK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "income_and_tasks"


def open_job(context: JobContext) -> "IncomeAndTasks":
    return IncomeAndTasks(context)


class IncomeAndTasks:
    """Holds nothing between batches."""

    name = NAME
    topics = (CREDIT.name, TASK.name)
    group = f"ottla-{NAME}"

    def __init__(self, context: JobContext) -> None:
        self._store = context.store
        self._rules = ParsingRules.of(context.settings)

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        parsed = parse(frame, self._rules, now_ms=batch.now_ms, columns=LOOKED_AT)
        # Few columns of few topics: they go to the driver in one job of Spark's, in place of one for each table.
        rows = postings(parsed).toArrow()
        posted = self._store.post_arrow(entries_of(rows), steps_of(rows), batch.id)
        return BatchOutcome(
            rows_read=rows.num_rows,
            rows_written=posted.entries + posted.tasks_done,
            duplicates=posted.duplicates,
        )
