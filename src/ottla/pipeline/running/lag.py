"""The lag of each job: records on its topics after the ends of its last finished batch.

Decides when to ask the cluster for the ends of topics, and writes `JobProgress.lag`. Knows neither Spark nor a client.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from ottla.core.types import TopicPartition
from ottla.pipeline.running.progress import JobProgress

_ASK_EVERY_S: Final = 2.0
# A batch lowers the lag at once, by the ends that are known; soon after it, they are asked for again.
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
        self._shown_for: list[Mapping[TopicPartition, int]] = []
        self._known: Mapping[TopicPartition, int] | None = None  # the answer to the last question
        self._is_behind = False  # a batch has finished since

    def look(self, jobs: Sequence[JobPosition], *, now_s: float, is_last: bool = False) -> None:
        ends = [job.ends for job in jobs]
        is_new = ends != self._shown_for
        self._is_behind |= is_new
        age_s = now_s - self._asked_at_s
        if is_last or age_s >= (_ASK_AFTER_BATCH_S if self._is_behind else _ASK_EVERY_S):
            self._asked_at_s = now_s
            self._is_behind = False
            topic_partitions = {topic_partition for each in ends for topic_partition in each}
            self._known = self._latest(topic_partitions) if topic_partitions else {}
        elif not is_new:
            return
        self._shown_for = ends
        for job in jobs:
            job.progress.lag = self._lag(job)

    def _lag(self, job: JobPosition) -> int | None:
        # Before its first batch a job doesn't know what is there, and after it the ends are not asked for yet.
        if self._known is None or not (job.ends or job.is_over) or not job.ends.keys() <= self._known.keys():
            return None
        return sum(max(0, self._known[each] - offset) for each, offset in job.ends.items())
