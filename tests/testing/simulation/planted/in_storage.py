"""Bugs of logs: what is durable, and what a partition knows of its producers."""

from typing import Any

import pytest

from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.storage.producer_state import ProducerState
from ottla.testing.simulated_disk import SimulatedAppendFile


def batch_that_is_sent_again_is_appended_again(patch: pytest.MonkeyPatch) -> None:
    """A producer's sequence is not looked at."""
    patch.setattr(ProducerState, "check", lambda *_, **__: None)


def segments_are_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """What is acknowledged as durable is lost with the power."""
    fsync = SimulatedAppendFile.fsync

    def fsync_all_but_segments(self: SimulatedAppendFile) -> None:
        if not self._path.endswith(".log"):
            fsync(self)

    patch.setattr(SimulatedAppendFile, "fsync", fsync_all_but_segments)


def leader_counts_what_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    """A replica's durable end is its log's end, fsynced or not."""
    patch.setattr(Partition, "durable_end_offset", property(lambda self: self.log.log_end_offset))


def follower_does_not_know_producers(patch: pytest.MonkeyPatch) -> None:
    """A follower that is elected has forgotten what producers sent: a batch that is sent again is there twice."""
    append = Log.append_as_follower

    def append_without_producers(self: Log, *arguments: Any, **named: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(ProducerState, "append_batch", lambda *_: None)
            return append(self, *arguments, **named)

    patch.setattr(Log, "append_as_follower", append_without_producers)


def truncation_keeps_producers(patch: pytest.MonkeyPatch) -> None:
    """A batch that was cut off is still known as appended: sent again, it is acknowledged and nowhere."""

    def keep(self: ProducerState, *, log_start_offset: int, log_end_offset: int, now_ms: int) -> int:
        return log_end_offset

    patch.setattr(ProducerState, "truncate_and_reload", keep)
