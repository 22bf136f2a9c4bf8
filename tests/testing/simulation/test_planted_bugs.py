"""The simulator is judged by what it finds: each bug that is planted here breaks a rule within 300 seeds.

To be fast, the search begins at a seed that found the bug when it was written down, under faults that bring it to
light. After a change of the brokers another one may be the first; the search goes on to it.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from ottla.core.exchange import Deferred
from ottla.net.order import AnswerOrder
from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.fault_plan import FaultSettings
from ottla.testing.simulation.run import RunSettings, first_failure
from tests.testing.simulation.planted import in_control, in_replication, in_storage

pytestmark = pytest.mark.slow

LAST_SEED: Final = 300
# Followers leave and brokers go within seconds, so that a run of ten shows what takes a minute with the defaults.
QUICK: Final = (
    ("replica.lag.time.max.ms", "1500"),
    ("controller.socket.timeout.ms", "2000"),
    ("controlled.shutdown.retry.backoff.ms", "200"),
)
PATIENT: Final = QUICK[1:]  # who lags stays in sync


class Planted(NamedTuple):
    plant: Callable[[pytest.MonkeyPatch], None]
    settings: RunSettings
    first_seed: int = 1


def under(
    *kinds: str,
    interval_s: float = 0.8,
    lasts_max_s: float = 3,
    down_max: int = 1,
    duration_s: float = 10,
    members: int = 0,
    spares_clients: bool = True,
    properties: tuple[tuple[str, str], ...] = QUICK,
) -> RunSettings:
    """Many short faults of these kinds; of nearly all kinds if none is named."""
    return RunSettings(
        duration_s=duration_s,
        partitions=2,
        members=members,
        pause_s=0.05,
        min_insync_replicas=1,
        session_timeout_ms=2_000,
        properties=properties,
        faults=FaultSettings(
            interval_s=interval_s,
            lasts_max_s=lasts_max_s,
            down_max=down_max,
            kinds=kinds,
            spares_clients=spares_clients,
        ),
    )


PLANTED: Final = [
    Planted(
        in_replication.wait_for_acks_is_not_pinned_to_its_epoch,
        under("delay", "session-expired", "stall", interval_s=0.5),
        5,
    ),
    Planted(in_replication.acks_all_is_answered_with_the_leaders_own_append, under(down_max=2)),
    Planted(
        in_replication.duplicate_is_acknowledged_at_once,
        under("delay", "stall", "isolate", interval_s=1, lasts_max_s=14, duration_s=15, properties=PATIENT),
    ),
    Planted(
        in_replication.produce_that_timed_out_is_acknowledged,
        under("delay", "stall", "isolate", interval_s=1, lasts_max_s=14, duration_s=15, properties=PATIENT),
    ),
    Planted(in_replication.follower_acknowledges_what_is_not_durable, under("power-off-all", interval_s=3), 14),
    Planted(in_replication.removal_counts_before_it_is_written, under(down_max=2)),
    Planted(in_replication.removal_is_not_written, under(down_max=2)),
    Planted(in_replication.addition_counts_late, under(down_max=2), 14),
    Planted(in_replication.isr_write_has_no_version, under(down_max=2)),
    Planted(
        in_replication.lost_answer_counts_as_not_written,
        under("store-answers-lost", "pause", "kill", interval_s=0.6, lasts_max_s=4, duration_s=12),
        6,
    ),
    Planted(in_replication.follower_joins_before_it_has_caught_up, under(down_max=2)),
    Planted(in_replication.high_watermark_of_a_new_leader_is_its_log_end, under(down_max=2), 6),
    Planted(in_replication.high_watermark_goes_back, under(down_max=2)),
    Planted(
        in_replication.high_watermark_is_restored_too_high,
        under("kill", "power-off", "delay", interval_s=0.5, lasts_max_s=2),
    ),
    Planted(
        in_replication.reads_go_beyond_the_high_watermark,
        under("delay", "session-expired", "stall", interval_s=0.5),
    ),
    Planted(
        in_replication.deposed_leader_answers_fetches, under("delay", "session-expired", "isolate", interval_s=0.5)
    ),
    Planted(in_replication.leader_does_not_compare_histories, under(down_max=2), 5),
    Planted(in_replication.follower_truncates_to_its_high_watermark, under(down_max=2), 6),
    Planted(
        in_control.controller_elects_without_a_version,
        under("pause", "delay", "session-expired", "store-answers-lost", interval_s=0.4),
        2,
    ),
    Planted(in_control.leader_is_elected_outside_of_the_isr, under("pause", "isolate", "kill", down_max=2), 18),
    Planted(in_control.election_keeps_the_epoch, under()),
    Planted(in_control.reborn_leader_keeps_its_epoch, under("power-off-all", interval_s=3)),
    Planted(in_control.older_controllers_are_not_fenced, under("delay", "session-expired", "pause", interval_s=0.4), 4),
    Planted(in_control.lost_session_is_not_registered_anew, under("session-expired")),
    Planted(
        in_control.coordinator_answers_before_the_commit,
        under("delay", "session-expired", "kill", interval_s=0.5, duration_s=15, members=2),
        6,
    ),
    Planted(in_storage.follower_does_not_know_producers, under("kill", "session-expired", interval_s=1)),
    Planted(in_storage.truncation_keeps_producers, under("delay", "session-expired", "kill", interval_s=0.4), 2),
    Planted(in_storage.leader_counts_what_is_not_durable, under("power-off-all", interval_s=3), 10),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.plant.__name__)
def test_finds(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch)
    found = first_failure(range(planted.first_seed, LAST_SEED + 1), planted.settings)
    assert found is not None, f"{planted.plant.__doc__} The simulator did not find it."
    assert isinstance(found[1], BrokenRule), found
    print(f"seed {found[0]}: {found[1]}")


# In a cluster of one broker


def broken_rule(*kinds: str) -> str:
    """The rule that the first of the seeds breaks."""
    faults = FaultSettings(interval_s=2, lasts_max_s=5, kinds=kinds)
    settings = RunSettings(brokers=1, duration_s=20, partitions=2, faults=faults)
    found = first_failure(range(1, LAST_SEED + 1), settings)
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
    in_storage.batch_that_is_sent_again_is_appended_again(monkeypatch)
    assert broken_rule("cut", "stall", "kill") in ("no value twice", "no duplicate per producer sequence")


def test_segments_are_acknowledged_without_their_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    in_storage.segments_are_not_fsynced(monkeypatch)
    assert broken_rule("power-off")
