"""The runtime with shards that know no group: leader epochs, appends, rewriting, loading and unloading."""

import pytest

from ottla.coordinator.runtime.ports import IF_LATE, NEVER, ON_COMMIT, Outcome, Replay
from ottla.core.errors import ErrorCode
from ottla.records.build import build_plain_batch
from tests.coordinator.runtime.counters import COMMIT_TIMEOUT_MS, Answer, CounterRig, CounterShard

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # 14
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE  # 15
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR  # 16
NONE = ErrorCode.NONE


@pytest.fixture
def rig() -> CounterRig:
    """One partition, led and loaded since epoch 5."""
    rig = CounterRig()
    rig.runtime.load(0, 5)
    assert rig.counts() == {}
    return rig


def start_load(rig: CounterRig, leader_epoch: int) -> None:
    """Begin a load that has something to read, and therefore waits for a thread."""
    assert rig.log().end_offset > rig.log().start_offset
    rig.runtime.load(0, leader_epoch)
    assert rig.counts() == LOADING


# A shard of any kind


def test_shard_of_any_kind_is_loaded_appended_to_rewritten_unloaded_and_loaded_again() -> None:
    rig = CounterRig(rewrite_above_bytes=4_000)
    rig.runtime.load(0, 0)
    for number in range(1, 101):
        assert rig.increment("visits") == [Answer(number, NONE)]
        rig.loop.turn()
    assert rig.increment("sales") == [Answer(1, NONE)]
    rig.settle()
    assert rig.runtime.rewriting_count >= 1
    assert rig.log().start_offset > 0
    assert rig.log().size_bytes < 4_000

    rig.runtime.unload(0, 1, NOT_COORDINATOR)
    assert rig.counts() == NOT_COORDINATOR
    rig.runtime.load(0, 2)
    rig.settle()
    assert rig.counts() == {"visits": 100, "sales": 1}
    assert rig.increment("visits") == [Answer(101, NONE)]


def test_timer_of_a_shard_appends_and_replays_its_outcome(rig: CounterRig) -> None:
    rig.increment("visits")
    rig.shard().delete_in("visits", delay_ms=1_000)
    rig.advance(999)
    assert rig.counts() == {"visits": 1}
    rig.advance(1)
    assert rig.counts() == {}
    rig.runtime.load(0, 6)
    rig.settle()
    assert rig.counts() == {}


def test_damaged_record_is_left_out_and_counted(rig: CounterRig) -> None:
    rig.increment("visits")
    rig.log().append(build_plain_batch(rig.now_ms, [(b"sales", b"many")]))
    rig.runtime.load(0, 6)
    rig.settle()
    assert rig.counts() == {"visits": 1}
    assert rig.runtime.damaged_count == 1


def test_answer_and_state_wait_for_the_commit(rig: CounterRig) -> None:
    rig.log().hold_commits()
    answers = rig.increment("visits")
    assert (answers, rig.counts()) == ([], {})
    rig.log().commit()
    assert (answers, rig.counts()) == ([Answer(1, NONE)], {"visits": 1})


@pytest.mark.parametrize(("replay", "expected"), [(ON_COMMIT, {"x": 7}), (IF_LATE, {"x": 7}), (NEVER, {})])
def test_records_that_are_committed_after_their_caller_was_timed_out(
    rig: CounterRig, replay: Replay, expected: dict[str, int]
) -> None:
    rig.log().hold_commits()
    errors: list[ErrorCode] = []
    rig.runtime.execute(rig.shard(), Outcome([(b"x", b"7")], errors.append, replay))
    rig.advance(COMMIT_TIMEOUT_MS)
    assert errors == [NOT_AVAILABLE]
    rig.log().commit()
    assert rig.counts() == expected
    assert errors == [NOT_AVAILABLE]


# Which error a partition answers with


def test_partition_that_was_never_loaded_is_coordinated_elsewhere() -> None:
    assert CounterRig().counts() == NOT_COORDINATOR


def test_partition_answers_14_while_it_is_loaded(rig: CounterRig) -> None:
    rig.increment("visits")
    start_load(rig, 6)
    rig.settle()
    assert rig.counts() == {"visits": 1}


def test_partition_answers_14_until_what_was_loaded_is_committed(rig: CounterRig) -> None:
    rig.log().hold_commits()
    rig.increment("visits")
    rig.runtime.load(0, 6)  # elected anew, with a record that no follower has said to have
    rig.settle()
    assert rig.counts() == LOADING
    rig.log().commit()
    assert rig.counts() == {"visits": 1}


def test_what_was_loaded_is_waited_for_again_while_there_are_too_few_replicas(rig: CounterRig) -> None:
    rig.log().hold_commits()
    rig.increment("visits")
    rig.runtime.load(0, 6)
    rig.settle()
    for _ in range(3):
        rig.log().fail_commits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        assert rig.counts() == LOADING
        rig.advance(1_000)
    rig.log().commit()
    assert rig.counts() == {"visits": 1}


def test_partition_whose_leader_changes_before_what_was_loaded_is_committed(rig: CounterRig) -> None:
    rig.log().hold_commits()
    rig.increment("visits")
    rig.runtime.load(0, 6)
    rig.settle()
    rig.log().fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert rig.counts() == NOT_COORDINATOR
    rig.runtime.load(0, 8)
    rig.settle()
    rig.runtime.unload(0, 9, NOT_COORDINATOR)
    rig.log().commit()
    assert rig.counts() == NOT_COORDINATOR


def test_partition_answers_15_where_its_log_is_offline(rig: CounterRig) -> None:
    rig.log().is_offline = True
    rig.runtime.load(0, 6)
    assert rig.counts() == NOT_AVAILABLE


def test_partition_whose_log_fails_under_its_leader_answers_15(rig: CounterRig) -> None:
    rig.log().is_offline = True
    assert [answer.error_code for answer in rig.increment("visits")] == [NOT_COORDINATOR]
    rig.runtime.unload(0, 5, NOT_AVAILABLE)
    assert rig.counts() == NOT_AVAILABLE


def test_load_whose_next_read_fails_answers_15(rig: CounterRig) -> None:
    for _ in range(30):  # more than one slice
        rig.increment("visits")
    start_load(rig, 6)
    rig.background.work_only()
    rig.log().is_offline = True
    rig.background.report()
    assert rig.counts() == NOT_AVAILABLE
    rig.log().is_offline = False
    rig.runtime.load(0, 7)
    rig.settle()
    assert rig.counts() == {"visits": 30}


def test_partition_that_another_broker_leads_answers_16() -> None:
    rig = CounterRig()
    rig.logs[0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    rig.runtime.load(0, 0)
    assert rig.counts() == NOT_COORDINATOR


# Leader epochs


@pytest.mark.parametrize("leader_epoch", [3, 5])
def test_load_with_an_epoch_that_is_not_newer_changes_nothing(rig: CounterRig, leader_epoch: int) -> None:
    shard = rig.shard()
    rig.log().hold_commits()
    answers = rig.increment("visits")
    rig.runtime.load(0, leader_epoch)
    assert rig.shard() is shard
    assert (len(rig.made), answers) == (1, [])
    rig.log().commit()
    assert answers == [Answer(1, NONE)]


def test_unload_with_a_stale_epoch_changes_nothing(rig: CounterRig) -> None:
    shard = rig.shard()
    rig.runtime.unload(0, 4, NOT_COORDINATOR)
    assert rig.shard() is shard
    assert rig.increment("visits") == [Answer(1, NONE)]


def test_unload_with_the_epoch_of_the_load_ends_it(rig: CounterRig) -> None:
    rig.runtime.unload(0, 5, NOT_AVAILABLE)
    assert rig.counts() == NOT_AVAILABLE
    rig.runtime.load(0, 5)  # that leadership is over
    assert rig.counts() == NOT_AVAILABLE


def test_load_that_comes_after_the_unload_of_a_newer_epoch_changes_nothing() -> None:
    rig = CounterRig()
    rig.runtime.unload(0, 7, NOT_COORDINATOR)
    rig.runtime.load(0, 6)
    assert (rig.counts(), rig.made) == (NOT_COORDINATOR, [])
    rig.runtime.load(0, 8)
    assert rig.counts() == {}


def test_load_with_a_newer_epoch_replaces_a_loaded_shard(rig: CounterRig) -> None:
    rig.increment("visits")
    old = rig.shard()
    rig.log().hold_commits()
    answers = rig.increment("visits")
    start_load(rig, 6)
    assert old.unloaded_with == NOT_COORDINATOR
    assert [answer.error_code for answer in answers] == [NOT_COORDINATOR]
    rig.settle()
    rig.log().commit()
    assert rig.shard() is not old
    assert rig.counts() == {"visits": 2}  # it is in the log


def test_load_with_a_newer_epoch_replaces_one_in_progress(rig: CounterRig) -> None:
    rig.increment("visits")
    start_load(rig, 6)
    rig.background.work_only()  # the thread of the first is done, and the loop has not heard of it
    rig.runtime.load(0, 7)
    rig.background.report()
    assert rig.counts() == LOADING
    rig.settle()
    assert rig.shard() is rig.made[-1][1]
    assert (rig.counts(), rig.loaded) == ({"visits": 1}, [0, 0])  # with epochs 5 and 7
    assert not rig.made[-2][1].is_loaded


def test_load_with_a_stale_epoch_does_not_disturb_one_in_progress(rig: CounterRig) -> None:
    rig.increment("visits")
    start_load(rig, 6)
    rig.runtime.load(0, 5)
    rig.runtime.unload(0, 5, NOT_COORDINATOR)
    rig.settle()
    assert (rig.counts(), len(rig.made)) == ({"visits": 1}, 2)


def test_unload_cancels_a_load_in_progress(rig: CounterRig) -> None:
    rig.increment("visits")
    start_load(rig, 6)
    rig.background.work_only()
    rig.runtime.unload(0, 7, NOT_COORDINATOR)
    assert (rig.counts(), rig.runtime.loading_count) == (NOT_COORDINATOR, 0)
    rig.background.report()
    rig.settle()
    assert (rig.counts(), rig.loaded) == (NOT_COORDINATOR, [0])  # with epoch 5 only


def test_load_unload_and_load_again_while_the_first_is_in_progress(rig: CounterRig) -> None:
    rig.increment("visits")
    start_load(rig, 6)
    rig.runtime.unload(0, 7, NOT_COORDINATOR)
    start_load(rig, 8)
    rig.settle()
    assert rig.counts() == {"visits": 1}
    assert [shard.is_loaded for _, shard in rig.made] == [True, False, True]
    assert rig.increment("visits") == [Answer(2, NONE)]


def test_epochs_start_anew_with_the_topic(rig: CounterRig) -> None:
    rig.runtime.unload_all()
    assert rig.counts() == NOT_COORDINATOR
    rig.runtime.load(0, 0)
    assert rig.counts() == {}


# Unloading


@pytest.mark.parametrize("later", [NOT_COORDINATOR, NOT_AVAILABLE])
def test_requests_that_wait_are_answered_with_16_whatever_later_ones_are(rig: CounterRig, later: ErrorCode) -> None:
    rig.log().hold_commits()
    waiting = [rig.increment("visits"), rig.increment("sales")]
    rig.runtime.unload(0, 6, later)
    assert rig.counts() == later
    rig.log().commit()  # too late, and nobody is answered twice
    assert [[answer.error_code for answer in answers] for answers in waiting] == [[NOT_COORDINATOR]] * 2


def test_partition_answers_with_its_error_before_those_that_wait_hear_of_it(rig: CounterRig) -> None:
    """An answer may let the next request of its connection in."""
    rig.log().hold_commits()
    seen: list[object] = []
    shard = rig.shard()
    rig.runtime.execute(shard, shard.increment("visits", lambda _: seen.append(rig.counts())))
    rig.runtime.load(0, 6)
    assert seen == [LOADING]


def test_shard_that_is_unloaded_appends_nothing_more(rig: CounterRig) -> None:
    shard = rig.shard()
    shard.delete_in("visits", delay_ms=1_000)
    rig.runtime.unload(0, 6, NOT_COORDINATOR)
    rig.advance(1_000)
    answers: list[Answer] = []
    rig.runtime.execute(shard, shard.increment("visits", answers.append))
    assert [answer.error_code for answer in answers] == [NOT_COORDINATOR]
    assert rig.log().end_offset == 0


def test_rewriting_ends_with_its_shard() -> None:
    rig = CounterRig(2, rewrite_above_bytes=2_000)
    rig.runtime.load(0, 0)
    rig.runtime.load(1, 0)
    for _ in range(40):
        rig.increment("visits", 0)
        rig.increment("visits", 1)
    rig.loop.turn()  # the first of the two has begun
    rig.runtime.load(0, 1)
    rig.settle()
    assert rig.counts(0) == rig.counts(1) == {"visits": 40}
    assert rig.runtime.rewriting_count == 2  # of the new shard of partition 0, and of partition 1


def test_rewriting_that_is_durable_after_the_unload_deletes_nothing() -> None:
    """The log may be another leader's by then."""
    rig = CounterRig(rewrite_above_bytes=2_000)
    rig.runtime.load(0, 0)
    rig.log().holds_fsyncs = True
    for _ in range(40):
        rig.increment("visits")
    rig.settle()
    rig.runtime.unload(0, 1, NOT_COORDINATOR)
    (on_durable,) = rig.log().fsyncs
    on_durable(NONE)
    assert (rig.log().start_offset, rig.runtime.rewriting_count) == (0, 0)


# Several partitions


def test_many_empty_partitions_are_served_at_once() -> None:
    rig = CounterRig(1_500)
    for partition in range(1_500):
        rig.runtime.load(partition, 0)
    assert (rig.runtime.loading_count, len(rig.runtime.shards())) == (0, 1_500)


def test_two_partitions_are_loaded_at_a_time() -> None:
    rig = filled(4)
    assert (rig.runtime.loading_count, len(rig.background.waiting)) == (4, 2)
    rig.settle()
    assert [rig.counts(partition) for partition in range(4)] == [{"visits": 1}] * 4


def test_unload_of_all_that_is_read_lets_the_next_loads_begin() -> None:
    rig = filled(4)
    rig.runtime.unload(0, 2, NOT_AVAILABLE)
    rig.runtime.unload(1, 2, NOT_AVAILABLE)
    rig.settle()
    assert rig.runtime.loading_count == 0
    assert [rig.counts(partition) for partition in range(4)] == [NOT_AVAILABLE] * 2 + [{"visits": 1}] * 2


def test_unload_of_a_partition_whose_load_waits_takes_it_out_of_the_queue() -> None:
    rig = filled(4)
    rig.runtime.unload(3, 2, NOT_COORDINATOR)
    rig.settle()
    assert rig.loaded[4:] == [0, 1, 2]
    assert rig.counts(3) == NOT_COORDINATOR


def filled(partitions: int) -> CounterRig:
    """Each partition has a record, and is being loaded with epoch 1."""
    rig = CounterRig(partitions)
    for partition in range(partitions):
        rig.runtime.load(partition, 0)
        rig.increment("visits", partition)
    for partition in range(partitions):
        rig.runtime.load(partition, 1)
    return rig


def test_shards_are_those_that_are_served_now(rig: CounterRig) -> None:
    shard = rig.shard()
    assert list(rig.runtime.shards()) == [shard]
    rig.runtime.unload(0, 6, NOT_COORDINATOR)
    assert list(rig.runtime.shards()) == []
    assert isinstance(shard, CounterShard)
