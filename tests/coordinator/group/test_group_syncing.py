"""Syncs: one assignment per generation, stored before anybody gets it."""

import pytest

from ottla.coordinator.group.states import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from ottla.core.errors import ErrorCode
from tests.coordinator.group.group_rig import GroupRig, errors


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


def test_followers_wait_for_the_leader_and_each_gets_its_own_assignment(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    waiting = rig.sync(follower, 1)
    assert waiting == []
    (own,) = rig.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert (own.assignment, waiting[0].assignment) == (b"L", b"F")
    assert (own.protocol_type, own.protocol_name) == ("consumer", "range")
    assert rig.group.state is STABLE


def test_member_that_the_leader_left_out_gets_nothing_and_strangers_are_ignored(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    rig.sync(leader, 1, {leader: b"L", "stranger": b"S"})
    assert rig.sync(follower, 1)[0].assignment == b""


def test_nobody_gets_an_assignment_before_it_is_stored(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    rig.holds_commits = True
    answers = [rig.sync(follower, 1), rig.sync(leader, 1, {leader: b"L", follower: b"F"})]
    assert answers == [[], []]
    assert rig.group.state is COMPLETING_REBALANCE
    rig.settle()
    assert [answer[0].assignment for answer in answers] == [b"F", b"L"]


def test_assignment_that_could_not_be_stored_is_nobodys_and_the_group_starts_over(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    rig.holds_commits = True
    answers = [rig.sync(follower, 1), rig.sync(leader, 1, {leader: b"L", follower: b"F"})]
    rig.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [errors(answer) for answer in answers] == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]] * 2
    assert rig.group.state is PREPARING_REBALANCE
    assert all(member.assignment == b"" for member in rig.group.members.values())
    assert rig.join(leader) == []
    assert rig.join(follower)[0].generation_id == 2


@pytest.mark.parametrize("error_code", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
def test_assignment_that_is_stored_after_the_next_rebalance_began_is_ignored(
    rig: GroupRig, error_code: ErrorCode
) -> None:
    leader, follower = rig.joined(None, None)
    rig.holds_commits = True
    waiting = rig.sync(leader, 1, {leader: b"L", follower: b"F"})
    rig.join(follower, protocols=[("range", b"more")])
    assert errors(waiting) == [ErrorCode.REBALANCE_IN_PROGRESS]
    rig.join(leader)
    assert rig.group.generation == 2
    rig.settle(error_code)
    assert rig.group.state is COMPLETING_REBALANCE
    assert rig.group.members[follower].assignment == b""


def test_second_sync_of_a_waiting_member_ends_the_first(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    older, newer = rig.sync(follower, 1), rig.sync(follower, 1)
    assert errors(older) == [ErrorCode.REBALANCE_IN_PROGRESS]
    rig.sync(leader, 1, {follower: b"F"})
    assert newer[0].assignment == b"F"
    assert len(older) == 1


def test_second_sync_of_the_leader_while_the_first_is_stored_changes_nothing_twice(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    rig.holds_commits = True
    assignments = {leader: b"L", follower: b"F"}
    older, newer = rig.sync(leader, 1, assignments), rig.sync(leader, 1, assignments)
    rig.settle()
    assert errors(older) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert newer[0].assignment == b"L"
    assert rig.groups.rebalances_finished == 1


def test_sync_while_the_group_prepares_is_told_so(rig: GroupRig) -> None:
    leader, follower = rig.stable(None, None)
    rig.join(leader)
    assert errors(rig.sync(follower, 1)) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_sync_of_an_old_generation_or_a_stranger_is_refused(rig: GroupRig) -> None:
    (leader,) = rig.joined(None)
    assert errors(rig.sync(leader, 0)) == [ErrorCode.ILLEGAL_GENERATION]
    assert errors(rig.sync("stranger", 1)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors(rig.sync(leader, 1, instance="i")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors(rig.sync(leader, 1, group_id="other")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_sync_with_another_protocol_than_the_chosen_is_inconsistent(rig: GroupRig) -> None:
    (leader,) = rig.joined(None)
    assert errors(rig.sync(leader, 1, protocol_type="connect")) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert errors(rig.sync(leader, 1, protocol_name="sticky")) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert errors(rig.sync(leader, 1, protocol_type="consumer", protocol_name="range")) == [ErrorCode.NONE]
