"""Members that leave, in every state and every version."""

import pytest

from ottla.coordinator.group.states import EMPTY, PREPARING_REBALANCE, STABLE
from ottla.core.errors import ErrorCode
from tests.coordinator.group.group_rig import DELAY_MS, GroupRig, errors


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


def test_leaver_starts_a_rebalance_and_the_next_member_leads(rig: GroupRig) -> None:
    leader, follower = rig.stable(None, None)
    (answer,) = rig.leave(leader)
    assert (answer.error_code, answer.members[0].error_code) == (0, 0)
    assert rig.group.leader_id == follower
    assert rig.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_several_leave_in_one_request_each_with_its_own_error(rig: GroupRig) -> None:
    first, second, third = rig.stable(None, None, None)
    (answer,) = rig.leave(first, "stranger", second, first)
    codes = [ErrorCode(member.error_code) for member in answer.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(rig.group.members) == {third}


def test_old_versions_have_one_error_for_the_one_member(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    assert errors(rig.leave("stranger", version=2)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    (answer,) = rig.leave(only, version=0)
    assert (answer.error_code, answer.members) == (0, [])


def test_leave_of_a_group_that_is_not_there_is_of_unknown_members(rig: GroupRig) -> None:
    (answer,) = rig.leave("a", "b")
    assert [member.error_code for member in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert answer.error_code == 0
    assert errors(rig.leave("a", version=1)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_last_leaver_is_answered_when_the_empty_group_is_stored(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    rig.holds_commits = True
    answer = rig.leave(only)
    assert answer == []
    assert rig.group.state is EMPTY
    rig.settle()
    assert errors(answer) == [ErrorCode.NONE]
    group = rig.replayed().get("g")
    assert group is not None
    assert (group.state, group.generation, group.protocol_type) == (EMPTY, 2, "consumer")


def test_last_leaver_hears_that_it_could_not_be_stored(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    rig.holds_commits = True
    answer = rig.leave(only)
    rig.settle(ErrorCode.NOT_COORDINATOR)
    assert errors(answer) == [ErrorCode.NOT_COORDINATOR]


def test_id_that_was_only_given_out_leaves_without_a_rebalance(rig: GroupRig) -> None:
    rig.stable(None)
    (pending,) = rig.join(version=4)
    assert rig.leave(pending.member_id)[0].members[0].error_code == 0
    assert rig.group.state is STABLE
    assert not rig.group.pending


def test_rebalance_ends_when_the_one_that_was_waited_for_leaves(rig: GroupRig) -> None:
    leader, follower = rig.stable(None, None)
    answer = rig.join(leader)
    rig.leave(follower)
    assert answer[0].generation_id == 2
    (pending,) = rig.join(version=4)
    again = rig.join(leader, protocols=[("range", b"more")])
    assert again == []
    rig.leave(pending.member_id)
    assert again[0].generation_id == 3


def test_what_a_leaver_waits_for_is_answered(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    waiting = rig.sync(follower, 1)
    rig.leave(follower)
    assert errors(waiting) == [ErrorCode.UNKNOWN_MEMBER_ID]
    joining = rig.join(leader)
    assert errors(joining) == [ErrorCode.NONE]
    new = rig.join()
    rig.leave(*list(rig.group.members))
    assert errors(new) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert rig.group.state is EMPTY
    assert len(rig.wheel) == 0


def test_leaving_during_the_initial_delay_does_not_shorten_it(rig: GroupRig) -> None:
    (pending,) = rig.join(version=4)
    rig.join(pending.member_id, version=4)
    other = rig.join()
    rig.leave(pending.member_id)
    assert other == []
    assert rig.group.state is PREPARING_REBALANCE
    rig.pass_ms(2 * DELAY_MS + 1)
    assert errors(other) == [ErrorCode.NONE]
