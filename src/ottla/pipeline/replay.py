"""A replay reads the topics again from their beginning into shadow tables, to compare with the tables and to swap in.

It has a checkpoint, groups and tables of its own and sends no dead letters, so running jobs don't notice it. Only the
swap needs them stopped: it is refused while they run, or when it would lose rows.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.pipeline.jobs.known import JOBS
from ottla.pipeline.running.checkpoints import Checkpoint
from ottla.pipeline.running.progress import JobProgress
from ottla.pipeline.running.query import DONE
from ottla.pipeline.running.runner import Runner, RunPlan
from ottla.pipeline.settings import Settings
from ottla.pipeline.stores.port import Difference, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_NAME: Final = "replay"


class ReplayFailed(Exception):
    """The replay did not read the topics to their ends; the next one of this name continues there."""


class WouldLose(Exception):
    """The shadow lacks rows of the tables: a swap would lose them."""


class Replay:
    """One replay, by name: one that ended early, or is repeated later, continues where it was.

    The plan's `checkpoint` is the folder of the running jobs; the replay's own is in it.
    """

    def __init__(
        self,
        store: Store,
        plan: RunPlan,
        settings: Settings,
        *,
        name: str,
        report: Callable[[str], None],
        show: Callable[[Sequence[JobProgress]], None],
    ) -> None:
        self._store = store
        self._main_checkpoint = plan.checkpoint
        self._own_checkpoint = own_checkpoint(plan.checkpoint, name)
        own_plan = plan._replace(
            checkpoint=self._own_checkpoint,
            store_name=f"{plan.store_name}, shadow {name}",
            trigger_ms=None,
            replay=name,
        )
        self._runner = Runner(own_plan, settings, open_store=lambda: store.shadow(name), report=report, show=show)
        self._name = name

    @property
    def progress(self) -> Sequence[JobProgress]:
        return self._runner.progress

    def ask_to_stop(self) -> None:
        self._runner.ask_to_stop()

    def fill(self, start_spark: Callable[[], "SparkSession"]) -> None:
        """Process all records that are on the topics now into the shadow."""
        is_well = self._runner.run(start_spark)
        if not is_well or any(each.state != DONE for each in self.progress):
            raise ReplayFailed("the replay did not finish; start it again with the same name, and it continues there")

    def differences(self) -> list[Difference]:
        """Between the tables and the shadow."""
        shadow = self._store.shadow(self._name)
        try:
            return list(self._store.compare(shadow))
        finally:
            shadow.close()

    @contextmanager
    def jobs_stopped(self) -> Iterator[None]:
        """Within it no job of the tables runs or can start. CheckpointRefused names the process in the way."""
        with ExitStack() as stack:
            for job in JOBS:
                stack.enter_context(Checkpoint(self._main_checkpoint, job).claimed())
            yield

    def swap(self, differences: Sequence[Difference], *, may_lose: bool = False) -> str:
        """Make the shadow's tables the tables; returns the name of the old ones. Call it within `jobs_stopped`."""
        lost = {each.table: each.only_here for each in differences if each.only_here}
        if lost and not may_lose:
            rows_lost = ", ".join(f"{rows:,} of {table}" for table, rows in lost.items())
            raise WouldLose(
                f"nothing was swapped, rows would be lost: {rows_lost}. They are of events that the topics no longer "
                "hold, or of jobs that were not replayed"
            )
        self._store.swap(self._name)
        # The events that it has read are in the tables now: the next replay of this name begins with an empty shadow.
        shutil.rmtree(self._own_checkpoint, ignore_errors=True)
        return f"{self._name}-before"


def own_checkpoint(checkpoint: Path, name: str) -> Path:
    """Where a replay keeps its checkpoint, and Spark's log."""
    return checkpoint / f"{DEFAULT_NAME}-{name}"
