"""The lag of jobs: asked again soon after a batch, and not with every look."""

from collections.abc import Mapping, Set

from ottla.core.types import TopicPartition
from ottla.pipeline.running.lag import JobPosition, LagWatch
from ottla.pipeline.running.progress import JobProgress

LOGIN = TopicPartition("ml_login_log", 0)


class Ends:
    """The ends of topics as the cluster gives them, and how often it was asked."""

    def __init__(self) -> None:
        self.latest: Mapping[TopicPartition, int] | None = {LOGIN: 100}
        self.asked = 0

    def __call__(self, topic_partitions: Set[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        self.asked += 1
        return self.latest


def position(progress: JobProgress, read: int | None, *, is_over: bool = False) -> JobPosition:
    return JobPosition(progress, {} if read is None else {LOGIN: read}, is_over)


def test_lag_is_asked_again_soon_after_a_batch_and_else_every_two_seconds() -> None:
    ends, progress = Ends(), JobProgress("collect", "group")
    watch = LagWatch(ends)
    watch.look([position(progress, 40)], now_s=10.0)
    assert (progress.lag, ends.asked) == (60, 1)
    for tenth in range(1, 20):
        watch.look([position(progress, 40)], now_s=10.0 + tenth / 10)
    assert ends.asked == 1
    watch.look([position(progress, 40)], now_s=12.1)
    assert ends.asked == 2
    for hundredth in range(13, 64):
        watch.look([position(progress, 90)], now_s=12.0 + hundredth / 100)
    assert (progress.lag, ends.asked) == (10, 3)


def test_a_batch_lowers_the_lag_at_once_by_what_it_has_read() -> None:
    ends, progress = Ends(), JobProgress("collect", "group")
    watch = LagWatch(ends)
    watch.look([position(progress, 40)], now_s=10.0)
    watch.look([position(progress, 90)], now_s=10.1)
    assert (progress.lag, ends.asked) == (10, 1)


def test_a_run_that_is_over_asks_once_more() -> None:
    ends, progress = Ends(), JobProgress("collect", "group")
    watch = LagWatch(ends)
    watch.look([position(progress, 40)], now_s=10.0)
    watch.look([position(progress, 100, is_over=True)], now_s=10.1, is_last=True)
    assert (progress.lag, ends.asked) == (0, 2)


def test_lag_is_unknown_before_the_first_batch_and_without_a_cluster() -> None:
    ends, progress = Ends(), JobProgress("collect", "group")
    watch = LagWatch(ends)
    watch.look([position(progress, None)], now_s=10.0)
    watch.look([position(progress, 40)], now_s=10.1)
    assert (progress.lag, ends.asked) == (None, 0)
    watch.look([position(progress, 40)], now_s=20.0)
    assert progress.lag == 60
    ends.latest = None
    watch.look([position(progress, 40)], now_s=30.0)
    assert progress.lag is None
