"""Static members: they come back without a rebalance, and two that claim one place are told apart."""

import pytest

from ottla.coordinator.group.states import PREPARING_REBALANCE, STABLE
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.leave_group import MemberIdentity
from tests.coordinator.group.group_rig import DELAY_MS, SESSION_MS, GroupRig, errors


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


def test_member_that_comes_back_keeps_its_assignment_and_nobody_notices(rig: GroupRig) -> None:
    leader, old = rig.stable("a", "b")
    (back,) = rig.join(instance="b", version=5)
    assert (back.error_code, back.generation_id, back.leader, back.members) == (ErrorCode.NONE, 1, leader, [])
    assert back.member_id != old
    assert rig.group.state is STABLE
    assert rig.heartbeat(leader, 1) == ErrorCode.NONE
    assert rig.sync(back.member_id, 1, instance="b")[0].assignment == b"1"


def test_the_older_of_two_members_with_one_instance_id_is_fenced_everywhere(rig: GroupRig) -> None:
    old, _ = rig.stable("a", "b")
    (back,) = rig.join(instance="a")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert rig.heartbeat(old, 1, instance="a") == fenced
    assert errors(rig.sync(old, 1, instance="a")) == [fenced]
    assert errors(rig.join(old, instance="a")) == [fenced]
    assert rig.commit_error(old, 1, instance="a") == fenced
    assert rig.leave(MemberIdentity(member_id=old, group_instance_id="a"))[0].members[0].error_code == fenced
    assert rig.heartbeat(back.member_id, 1, instance="a") == ErrorCode.NONE
    assert rig.heartbeat(old, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_older_member_that_waits_is_fenced_at_once(rig: GroupRig) -> None:
    older = rig.join(instance="a")
    newer = rig.join(instance="a")
    assert errors(older) == [ErrorCode.FENCED_INSTANCE_ID]
    rig.pass_ms(DELAY_MS + 1)
    assert errors(newer) == [ErrorCode.NONE]
    waiting = rig.sync(newer[0].member_id, 1)  # it leads, so this is answered
    assert errors(waiting) == [ErrorCode.NONE]
    assert len(rig.group.members) == 1


@pytest.mark.parametrize("version", [5, 8])
def test_leader_that_comes_back_with_an_old_version_is_told_that_the_old_id_leads(rig: GroupRig, version: int) -> None:
    old, _ = rig.stable("a", "b")
    (back,) = rig.join(instance="a", version=version)
    assert (back.leader, back.members, back.skip_assignment) == (old, [], False)


def test_leader_that_comes_back_is_told_to_assign_nothing(rig: GroupRig) -> None:
    rig.stable("a", "b")
    (back,) = rig.join(instance="a", version=9)
    assert (back.leader, len(back.members), back.skip_assignment) == (back.member_id, 2, True)
    assert rig.sync(back.member_id, 1)[0].assignment == b"0"


def test_new_id_is_stored_before_it_is_given_out(rig: GroupRig) -> None:
    rig.stable("a", "b")
    rig.holds_commits = True
    answer = rig.join(instance="b")
    assert answer == []
    rig.settle()
    group = rig.replayed().get("g")
    assert group is not None
    assert group.static_members["b"].member_id == answer[0].member_id
    assert group.static_members["b"].assignment == b"1"


def test_id_that_could_not_be_stored_is_taken_back(rig: GroupRig) -> None:
    leader, old = rig.stable("a", "b")
    rig.holds_commits = True
    answer = rig.join(instance="b", protocols=[("range", b"new")])
    rig.settle(ErrorCode.NOT_COORDINATOR)
    assert errors(answer) == [ErrorCode.NOT_COORDINATOR]
    assert answer[0].member_id == ""
    assert rig.heartbeat(old, 1, instance="b") == ErrorCode.NONE
    assert rig.group.members[old].protocols == {"range": b"r"}
    assert set(rig.group.members) == {leader, old}


def test_rebalance_that_starts_while_the_new_id_is_stored_answers_the_join(rig: GroupRig) -> None:
    leader, _ = rig.stable("a", "b")
    rig.holds_commits = True
    answer = rig.join(instance="b")
    rig.join(leader)
    assert answer[0].generation_id == 2
    rig.settle()
    assert len(answer) == 1


def test_member_that_comes_back_while_completing_starts_over(rig: GroupRig) -> None:
    leader, old = rig.joined("a", "b")
    waiting = rig.sync(old, 1)
    answer = rig.join(instance="b")
    assert errors(waiting) == [ErrorCode.FENCED_INSTANCE_ID]
    assert rig.group.state is PREPARING_REBALANCE
    rig.join(leader)
    assert errors(answer) == [ErrorCode.NONE]


def test_member_that_comes_back_while_preparing_is_one_that_has_joined(rig: GroupRig) -> None:
    leader, _ = rig.stable("a", "b")
    first = rig.join(leader)
    second = rig.join(instance="b")
    assert first[0].generation_id == second[0].generation_id == 2


def test_member_whose_return_changes_the_chosen_protocol_starts_a_rebalance(rig: GroupRig) -> None:
    both = (("range", b"r"), ("sticky", b"s"))
    rig.stable("a", protocols=both)
    answer = rig.join(instance="a", protocols=both[::-1])
    assert (answer[0].generation_id, answer[0].protocol_name) == (2, "sticky")


def test_session_of_a_member_that_does_not_come_back_ends(rig: GroupRig) -> None:
    leader, old = rig.stable("a", "b")
    list(rig.keep_alive([leader], 1, SESSION_MS + 3_000))
    assert rig.group.state is PREPARING_REBALANCE
    assert "b" not in rig.group.static_members
    assert rig.heartbeat(old, 1, instance="b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_session_goes_on_for_the_new_id_and_no_timer_is_left_of_the_old(rig: GroupRig) -> None:
    rig.stable("a")
    timers = len(rig.wheel)
    rig.pass_ms(SESSION_MS - 1_000)
    (back,) = rig.join(instance="a")
    assert len(rig.wheel) == timers
    rig.pass_ms(SESSION_MS - 1_000)
    assert rig.heartbeat(back.member_id, 1) == ErrorCode.NONE


def test_administrator_removes_static_members_by_their_instance_ids(rig: GroupRig) -> None:
    rig.stable("a", "b", "c")
    (answer,) = rig.leave(
        MemberIdentity(group_instance_id="a"), MemberIdentity(group_instance_id="c"), MemberIdentity(member_id="x")
    )
    assert [member.error_code for member in answer.members] == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(rig.group.static_members) == {"b"}
    assert rig.group.state is PREPARING_REBALANCE


def test_member_that_comes_back_during_a_long_rebalance_is_waited_for(rig: GroupRig) -> None:
    older = rig.join(instance="a")
    newer = rig.join(instance="a", rebalance_ms=120_000)
    assert errors(older) == [ErrorCode.FENCED_INSTANCE_ID]
    rig.settings = rig.settings._replace(initial_rebalance_delay_ms=60_000)
    rig.join()  # prolongs the delay
    rig.pass_ms(5 * SESSION_MS)
    assert newer == []
    rig.pass_ms(SESSION_MS)
    assert errors(newer) == [ErrorCode.NONE]


def test_member_that_comes_back_is_shown_where_it_is_now(rig: GroupRig) -> None:
    rig.stable("a")
    (back,) = rig.join(instance="a", client_id="new client")
    (member,) = rig.groups.describe("g", 6).members
    assert (member.client_id, member.member_id) == ("new client", back.member_id)
