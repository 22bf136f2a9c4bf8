"""The simulator is judged by what it finds: bugs that are planted here break a rule within a few seeds."""

from typing import Any

import pytest

from ottla.core.exchange import Deferred
from ottla.net.order import AnswerOrder
from ottla.storage.producer_state import ProducerState
from ottla.testing.simulated_disk import SimulatedAppendFile
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.fault_plan import FaultSettings
from ottla.testing.simulation.run import RunSettings, first_failure

SEEDS = range(1, 60)


def broken_rule(*kinds: str) -> str:
    """The rule that the first of the seeds breaks."""
    faults = FaultSettings(interval_s=2, lasts_max_s=5, kinds=kinds)
    found = first_failure(SEEDS, RunSettings(brokers=1, duration_s=20, partitions=2, faults=faults))
    assert found is not None, "the bug was not found"
    assert isinstance(found[1], BrokenRule), found[1]
    return found[1].name


def test_answers_in_another_order_than_their_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def release(self: AnswerOrder, ready: list[Any]) -> None:
        for entry in list(self.entries):
            if isinstance(entry, Deferred) and not entry.is_complete:
                continue
            self.entries.remove(entry)
            answer = entry.answer if isinstance(entry, Deferred) else entry
            ready.extend(answer if isinstance(answer, list) else [answer] if answer is not None else [])

    monkeypatch.setattr(AnswerOrder, "release", release)
    assert broken_rule("cut") == "a broker keeps to the protocol"


def test_a_batch_that_is_sent_again_is_appended_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "check", lambda *_, **__: None)
    assert broken_rule("cut", "stall", "kill") in ("no value twice", "no duplicate per producer sequence")


def test_segments_are_acknowledged_without_their_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = SimulatedAppendFile.fsync

    def fsync_all_but_segments(self: SimulatedAppendFile) -> None:
        if not self._path.endswith(".log"):
            fsync(self)

    monkeypatch.setattr(SimulatedAppendFile, "fsync", fsync_all_but_segments)
    assert broken_rule("power-off")
