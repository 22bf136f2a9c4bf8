"""Heartbeats, commits that count as heartbeats, and sessions that end."""

import pytest

from ottla.coordinator.group.states import EMPTY, STABLE
from ottla.core.errors import ErrorCode
from tests.coordinator.group.group_rig import SESSION_MS, GroupRig


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


def test_heartbeats_keep_a_member_alive_and_leave_the_wheel_alone(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    timer = rig.group.members[only].session_timer
    expiration_ms = timer.expiration_ms
    assert set(rig.keep_alive([only], 1, SESSION_MS - 3_000)) == {ErrorCode.NONE}
    assert timer.expiration_ms == expiration_ms
    assert set(rig.keep_alive([only], 1, 10 * SESSION_MS)) == {ErrorCode.NONE}
    assert rig.group.state is STABLE


def test_session_ends_its_timeout_after_the_last_heartbeat(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    rig.pass_ms(7_000)
    assert rig.heartbeat(only, 1) == ErrorCode.NONE
    rig.pass_ms(SESSION_MS - 1)
    assert rig.group.state is STABLE
    rig.pass_ms(2)
    assert rig.group.state is EMPTY
    assert rig.heartbeat(only, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_answers(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    assert rig.heartbeat(leader, 1) == ErrorCode.NONE  # a member may start before it has synced
    assert rig.heartbeat(leader, 0) == ErrorCode.ILLEGAL_GENERATION
    assert rig.heartbeat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.heartbeat(leader, 1, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.heartbeat(leader, 1, group_id="other") == ErrorCode.UNKNOWN_MEMBER_ID
    rig.sync(leader, 1)
    rig.sync(follower, 1)
    rig.join(leader)
    assert rig.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_commit_counts_as_a_heartbeat(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    for _ in range(5):
        rig.pass_ms(SESSION_MS - 1_000)
        assert rig.commit_error(only, 1) == ErrorCode.NONE
    assert rig.group.state is STABLE


def test_mark_of_a_group_changes_with_whatever_changes_the_answer_to_a_heartbeat(rig: GroupRig) -> None:
    leader, _ = rig.stable("a", "b")
    group = rig.group
    marks = [group.mark]

    def expect_change() -> None:
        assert group.mark != marks[-1]
        marks.append(group.mark)

    rig.heartbeat(leader, 1)
    rig.commit_error(leader, 1)
    assert group.mark == marks[-1]
    (back,) = rig.join(instance="b")
    expect_change()
    rig.join(leader)
    expect_change()
    rig.join(back.member_id)
    expect_change()
    rig.sync(leader, 2)
    expect_change()
    rig.leave(leader)
    expect_change()
    rig.groups.unload(ErrorCode.NOT_COORDINATOR)
    expect_change()


def test_commits_of_the_current_generation_go_on_while_a_rebalance_is_prepared(rig: GroupRig) -> None:
    leader, follower = rig.stable(None, None)
    rig.join(leader)
    assert rig.commit_error(follower, 1) == ErrorCode.NONE


def test_commit_before_the_sync_has_to_wait(rig: GroupRig) -> None:
    (leader,) = rig.joined(None)
    assert rig.commit_error(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_commits_of_old_generations_strangers_and_simple_consumers_of_a_busy_group_are_refused(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    assert rig.commit_error(only, 0) == ErrorCode.ILLEGAL_GENERATION
    assert rig.commit_error("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.commit_error("", -1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_commit_without_generation_is_for_absent_and_empty_groups(rig: GroupRig) -> None:
    assert rig.commit_error("", -1) == ErrorCode.NONE
    (only,) = rig.stable(None)
    rig.leave(only)
    assert rig.commit_error("", -1) == ErrorCode.NONE
    assert rig.commit_error(only, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_commit_with_a_generation_of_an_absent_group_is_refused_by_version(rig: GroupRig) -> None:
    assert rig.commit_error("m", 3, version=9) == ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.commit_error("m", 3, version=8) == ErrorCode.ILLEGAL_GENERATION
