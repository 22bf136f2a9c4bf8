"""The lag of each job: records on its topics after the ends of its last finished batch.

Decides when to ask the cluster for the ends of topics, and writes `JobProgress.lag`. Knows neither Spark nor a client.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from ottla.core.types import TopicPartition
from ottla.pipeline.running.progress import JobProgress

_ASK_EVERY_S: Final = 2.0
# A lag from before a batch, shown beside what the batch has read, would count its records in both.
_ASK_AFTER_BATCH_S: Final = 0.5


class JobPosition(NamedTuple):
    """A job, and the offsets up to which its finished batches have read."""

    progress: JobProgress
    ends: Mapping[TopicPartition, int]
    is_over: bool


class LagWatch:
    """Of one run. `latest` gives the ends of partitions, or None if the cluster does not answer."""

    def __init__(self, latest: Callable[[Set[TopicPartition]], Mapping[TopicPartition, int] | None]) -> None:
        self._latest = latest
        self._asked_at_s = 0.0
        self._asked_for: list[Mapping[TopicPartition, int]] = []

    def look(self, jobs: Sequence[JobPosition], *, now_s: float, is_last: bool = False) -> None:
        age_s = now_s - self._asked_at_s
        is_old = age_s >= _ASK_AFTER_BATCH_S and self._asked_for != [job.ends for job in jobs]
        if is_last or is_old or age_s >= _ASK_EVERY_S:
            self._asked_at_s = now_s
            self._ask(jobs)

    def _ask(self, jobs: Sequence[JobPosition]) -> None:
        self._asked_for = [job.ends for job in jobs]
        topic_partitions = {topic_partition for job in jobs for topic_partition in job.ends}
        latest = self._latest(topic_partitions) if topic_partitions else {}
        for job in jobs:
            if latest is None or not (job.ends or job.is_over):
                job.progress.lag = None  # before its first batch a job doesn't know what is there
            else:
                job.progress.lag = sum(max(0, latest[each] - offset) for each, offset in job.ends.items())
