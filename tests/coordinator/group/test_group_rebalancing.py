"""Rebalances: who is waited for, who is left behind, and what the members hear meanwhile."""

import pytest

from ottla.coordinator.group.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.core.errors import ErrorCode
from tests.coordinator.group.group_rig import REBALANCE_MS, SESSION_MS, GroupRig, errors


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


def test_rebalance_ends_as_soon_as_the_last_member_has_joined(rig: GroupRig) -> None:
    leader, follower = rig.stable(None, None)
    new = rig.join()
    first = rig.join(leader)
    assert new == first == []
    second = rig.join(follower)
    assert [answer[0].generation_id for answer in (new, first, second)] == [2, 2, 2]
    assert len(first[0].members) == 3
    assert rig.group.state is COMPLETING_REBALANCE


def test_member_killed_in_a_rebalance_is_dropped_and_the_others_finish(rig: GroupRig) -> None:
    leader, killed = rig.stable(None, None)
    answer = rig.join(leader)
    rig.pass_ms(SESSION_MS)
    assert errors(answer) == [ErrorCode.NONE]  # its session is over before the rebalance timeout
    assert set(rig.group.members) == {leader}
    assert rig.heartbeat(killed, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_only_sends_heartbeats_is_dropped_at_the_rebalance_timeout(rig: GroupRig) -> None:
    leader, idle = rig.stable(None, None)
    answer = rig.join(leader)
    heard = list(rig.keep_alive([idle], 1, REBALANCE_MS - 3_000))
    assert set(heard) == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert answer == []
    rig.pass_ms(3_001)
    assert errors(answer) == [ErrorCode.NONE]
    assert set(rig.group.members) == {leader}
    assert rig.heartbeat(idle, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_leader_that_does_not_come_back_is_followed_by_one_that_did(rig: GroupRig) -> None:
    leader, follower = rig.stable(None, None)
    answer = rig.join(follower, protocols=[("range", b"more")])
    list(rig.keep_alive([leader], 1, REBALANCE_MS))
    rig.pass_ms(1)
    assert answer[0].leader == follower
    assert [member.member_id for member in answer[0].members] == [follower]


def test_static_member_that_does_not_rejoin_is_kept_by_its_session(rig: GroupRig) -> None:
    static, dynamic = rig.stable("i", None)
    answer = rig.join(dynamic, protocols=[("range", b"more")])
    list(rig.keep_alive([static], 1, REBALANCE_MS))
    rig.pass_ms(1)
    assert answer[0].leader == dynamic  # one that is here must lead
    assert {member.member_id for member in answer[0].members} == {static, dynamic}


def test_rebalance_that_no_static_member_rejoined_waits_for_their_sessions(rig: GroupRig) -> None:
    (static, dynamic) = rig.stable("i", None)
    rig.leave(dynamic)
    assert rig.group.state is PREPARING_REBALANCE
    list(rig.keep_alive([static], 1, 2 * REBALANCE_MS))
    assert rig.group.state is PREPARING_REBALANCE
    rig.pass_ms(SESSION_MS + 1)
    assert rig.group.state is EMPTY


def test_member_that_never_syncs_is_dropped_at_the_rebalance_timeout(rig: GroupRig) -> None:
    leader, silent = rig.joined(None, None)
    assert errors(rig.sync(leader, 1, {leader: b"0", silent: b"1"})) == [ErrorCode.NONE]
    assert rig.group.state is STABLE
    heard = list(rig.keep_alive([leader, silent], 1, REBALANCE_MS - 3_000))
    assert set(heard) == {ErrorCode.NONE}
    rig.pass_ms(3_001)
    assert set(rig.group.members) == {leader}
    assert rig.group.state is PREPARING_REBALANCE


def test_leader_that_never_syncs_is_dropped_and_waiting_members_rejoin(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    waiting = rig.sync(follower, 1)
    list(rig.keep_alive([leader], 1, REBALANCE_MS - 3_000))
    assert waiting == []
    rig.pass_ms(3_001)
    assert errors(waiting) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert rig.join(follower)[0].leader == follower


def test_group_that_nobody_syncs_becomes_empty(rig: GroupRig) -> None:
    members = rig.joined(None, None)
    list(rig.keep_alive(members, 1, REBALANCE_MS))
    rig.pass_ms(1)
    assert rig.group.state is EMPTY
    assert rig.group.generation == 2


def test_session_that_ends_while_completing_starts_over(rig: GroupRig) -> None:
    _, follower = rig.joined(None, None)
    waiting = rig.sync(follower, 1)
    rig.pass_ms(SESSION_MS + 1)
    assert errors(waiting) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert set(rig.group.members) == {follower}
    assert rig.group.state is PREPARING_REBALANCE


def test_member_that_waits_for_a_join_or_a_sync_needs_no_heartbeats(rig: GroupRig) -> None:
    leader, waiting, idle = rig.stable(None, None, None)
    answer = rig.join(waiting, protocols=[("range", b"more")])
    list(rig.keep_alive([leader, idle], 1, REBALANCE_MS - 6_000))
    rig.join(leader)
    rig.join(idle)
    assert errors(answer) == [ErrorCode.NONE]
    synced = rig.sync(waiting, 2)
    list(rig.keep_alive([leader, idle], 2, REBALANCE_MS - 6_000))
    assert set(rig.group.members) == {leader, waiting, idle}
    rig.sync(leader, 2, {waiting: b"w"})
    assert synced[0].assignment == b"w"


def test_group_whose_members_all_die_becomes_empty_with_a_new_generation(rig: GroupRig) -> None:
    rig.stable(None, None)
    rig.pass_ms(2 * SESSION_MS)
    assert rig.group.state is EMPTY
    assert (rig.group.generation, rig.group.protocol, rig.group.leader_id) == (2, None, None)
    assert rig.group.protocol_type == "consumer"
    assert len(rig.wheel) == 0


def test_rebalances_that_came_to_an_assignment_are_counted(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    assert rig.groups.rebalances_finished == 1
    rig.join(only)
    assert rig.groups.rebalances_finished == 1
    rig.sync(only, 2, {only: b"x"})
    assert rig.groups.rebalances_finished == 2


def test_cooperative_rebalance_needs_two_generations_and_stops_nobody(rig: GroupRig) -> None:
    """KIP-429: who keeps partitions goes on reading and may commit while the group prepares."""
    cooperative = (("cooperative-sticky", b"owns 0 1"),)
    (first,) = rig.stable(None, protocols=cooperative)
    second = rig.join(protocols=[("cooperative-sticky", b"owns nothing")])
    assert rig.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.commit_error(first, 1) == ErrorCode.NONE
    rig.join(first, protocols=cooperative)
    new = second[0].member_id
    waiting = rig.sync(new, 2)
    assert rig.sync(first, 2, {first: b"0", new: b""})[0].assignment == b"0"
    assert waiting[0].assignment == b""
    # Having revoked partition 1 the first one joins again, now owning less, and the other one gets it.
    again = rig.join(first, protocols=[("cooperative-sticky", b"owns 0")])
    assert again == []
    rig.join(new, protocols=[("cooperative-sticky", b"owns nothing")])
    assert {member.metadata for member in again[0].members} == {b"owns 0", b"owns nothing"}
    waiting = rig.sync(new, 3)
    rig.sync(first, 3, {first: b"0", new: b"1"})
    assert waiting[0].assignment == b"1"
    assert rig.group.state is STABLE
