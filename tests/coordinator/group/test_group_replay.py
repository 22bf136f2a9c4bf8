"""What the log keeps of a group, what a start makes of it, and how a shard that is unloaded leaves nothing behind."""

from itertools import islice

import pytest

from ottla.coordinator.group.schemas import GroupKey, GroupValue, MemberValue, decode_group_value
from ottla.coordinator.group.states import DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.core.errors import ErrorCode
from tests.coordinator.group.group_rig import DELAY_MS, SESSION_MS, SETTINGS, WALL_MS, GroupRig, errors, replay_into


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


def restart(rig: GroupRig) -> None:
    rig.groups.unload(ErrorCode.NOT_COORDINATOR)
    rig.groups = rig.replayed()
    rig.groups.on_loaded()


def test_generation_is_one_record_with_its_members_and_their_assignments(rig: GroupRig) -> None:
    (member_id,) = rig.stable("i")
    ((_, value),) = rig.log
    assert value is not None
    assert decode_group_value(value) == GroupValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=member_id,
        state_timestamp_ms=WALL_MS + DELAY_MS,
        members=(MemberValue(member_id, "i", "c", "/127.0.0.1", 60_000, SESSION_MS, b"r", b"0"),),
    )


def test_group_goes_on_over_a_restart_without_a_rebalance(rig: GroupRig) -> None:
    leader, follower = rig.stable(None, "i")
    restart(rig)
    assert rig.group.state is STABLE
    assert rig.heartbeat(leader, 1) == ErrorCode.NONE
    assert rig.heartbeat(follower, 1, instance="i") == ErrorCode.NONE
    assert rig.commit_error(leader, 1) == ErrorCode.NONE
    assert rig.sync(follower, 1)[0].assignment == b"1"
    assert rig.join(follower, instance="i")[0].generation_id == 1
    assert rig.join(leader) == []  # a leader that joins wants a rebalance
    assert rig.join(follower, instance="i")[0].generation_id == 2


def test_member_of_the_log_that_does_not_come_back_is_dropped_after_its_session(rig: GroupRig) -> None:
    rig.stable(None, None)
    restart(rig)
    rig.pass_ms(SESSION_MS - 1)
    assert rig.group.state is STABLE
    rig.pass_ms(2)
    assert rig.group.state is EMPTY


def test_group_that_became_too_large_while_it_was_stopped_rebalances(rig: GroupRig) -> None:
    members = rig.stable(None, None, None)
    rig.settings = SETTINGS._replace(group_max_size=2)
    restart(rig)
    assert rig.group.state is PREPARING_REBALANCE
    answers = [rig.join(member_id) for member_id in members]
    assert errors(answers[2]) == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert errors(answers[0]) == [ErrorCode.NONE]


def test_unload_answers_whoever_waits_and_leaves_no_timer(rig: GroupRig) -> None:
    leader, _ = rig.stable(None, None)
    joining = rig.join(leader)
    rig.join(version=4)
    group = rig.group
    rig.groups.unload(ErrorCode.NOT_COORDINATOR)
    assert errors(joining) == [ErrorCode.NOT_COORDINATOR]
    assert rig.groups.get("g") is None
    assert group.state is DEAD
    assert len(rig.wheel) == 0


@pytest.mark.parametrize("error_code", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
def test_records_that_are_settled_after_the_unload_answer_nobody_twice(rig: GroupRig, error_code: ErrorCode) -> None:
    leader, follower = rig.joined(None, "i")
    rig.holds_commits = True
    syncing = [rig.sync(follower, 1), rig.sync(leader, 1)]
    rig.groups.unload(ErrorCode.NOT_COORDINATOR)
    rig.settle(error_code)
    assert [errors(answer) for answer in syncing] == [[ErrorCode.NOT_COORDINATOR]] * 2


def test_static_join_that_is_settled_after_the_unload_is_not_answered_twice(rig: GroupRig) -> None:
    rig.stable("i")
    rig.holds_commits = True
    joining = rig.join(instance="i")
    rig.groups.unload(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    rig.settle(ErrorCode.NOT_COORDINATOR)
    assert errors(joining) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert len(rig.wheel) == 0


def test_tombstone_removes_a_group_from_the_log(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    rig.leave(only)
    rig.log += rig.groups.remove("g")
    assert rig.replayed().get("g") is None


def test_tombstone_that_is_replayed_removes_an_empty_group(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    rig.leave(only)
    replay_into(rig.groups, rig.groups.remove("g"))
    assert rig.groups.get("g") is None


def test_tombstone_that_a_join_has_overtaken_leaves_the_group_alone(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    rig.leave(only)
    tombstones = rig.groups.remove("g")
    waiting = rig.join()
    replay_into(rig.groups, tombstones)
    rig.pass_ms(DELAY_MS + 1)
    assert errors(waiting) == [ErrorCode.NONE]


def test_live_records_build_the_same_groups_anew(rig: GroupRig) -> None:
    leader, _ = rig.stable("a", None)
    rig.join(group_id="only pending", version=4)
    rig.groups.ensure_simple_group("simple")
    rig.join(leader, instance="a", protocols=[("range", b"more")])  # a rebalance that is not over is not in the log
    live = list(rig.groups.live_records())
    assert len(live) == 1
    assert rig.replayed(live).describe("g", 6) == rig.replayed().describe("g", 6)


def test_live_records_take_each_value_when_it_is_asked_for(rig: GroupRig) -> None:
    for group_id in ("a", "b", "c"):
        (pending,) = rig.join(group_id=group_id, version=4)
        rig.join(pending.member_id, group_id=group_id, version=4)
    rig.pass_ms(DELAY_MS + 1)
    members = {group_id: next(iter(group.members)) for group_id in "abc" if (group := rig.groups.get(group_id))}
    for group_id, member_id in members.items():
        rig.sync(member_id, 1, group_id=group_id)
    live = rig.groups.live_records()
    assert len(list(islice(live, 1))) == 1
    replay_into(rig.replayed(), rig.groups.remove("b"))
    rig.leave(members["c"], group_id="c")
    ((_, value),) = live
    assert value is not None
    assert decode_group_value(value).members == ()


def test_record_of_another_kafka_without_leader_or_rebalance_timeout_is_taken(rig: GroupRig) -> None:
    member = MemberValue("m", None, "c", "/h", -1, SESSION_MS, b"s", b"a")
    groups = rig.new_groups()
    groups.replay(GroupKey("g"), GroupValue("consumer", 7, "range", None, -1, (member,)))
    group = groups.get("g")
    assert group is not None
    assert (group.leader_id, group.rebalance_timeout_ms(), group.generation) == ("m", SESSION_MS, 7)
