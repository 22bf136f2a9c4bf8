"""Who is let into a group, when the joins are answered, and what a second join means."""

import pytest

from ottla.coordinator.group.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.core.errors import ErrorCode
from tests.coordinator.group.group_rig import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    SETTINGS,
    GroupRig,
    errors,
)

TWO = (("range", b"r"), ("sticky", b"s"))


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_session_timeout_out_of_range_is_refused(rig: GroupRig, session_ms: int) -> None:
    assert errors(rig.join(session_ms=session_ms)) == [ErrorCode.INVALID_SESSION_TIMEOUT]
    assert rig.groups.get("g") is None


def test_empty_group_id_is_refused_by_every_request(rig: GroupRig) -> None:
    assert errors(rig.join(group_id="")) == [ErrorCode.INVALID_GROUP_ID]
    assert errors(rig.sync("m", 1, group_id="")) == [ErrorCode.INVALID_GROUP_ID]
    assert rig.heartbeat("m", 1, group_id="") == ErrorCode.INVALID_GROUP_ID
    assert errors(rig.leave("m", group_id="")) == [ErrorCode.INVALID_GROUP_ID]


def test_join_with_an_id_of_a_group_that_is_not_there_is_unknown(rig: GroupRig) -> None:
    assert errors(rig.join("m")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert rig.groups.get("g") is None


def test_dynamic_member_without_id_gets_one_and_must_join_with_it(rig: GroupRig) -> None:
    (first,) = rig.join(version=4)
    assert (first.error_code, first.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-u1")
    second = rig.join(first.member_id, version=4)
    assert second == []
    rig.pass_ms(DELAY_MS + 1)
    assert (second[0].error_code, second[0].member_id, second[0].generation_id) == (ErrorCode.NONE, "c-u1", 1)


def test_static_member_and_old_versions_need_no_second_join(rig: GroupRig) -> None:
    answers = [rig.join(instance="i", version=9), rig.join(version=3, client_id=None)]
    rig.pass_ms(2 * DELAY_MS + 1)
    assert [answer[0].member_id for answer in answers] == ["i-u1", "member-u2"]


def test_id_that_was_given_out_expires_with_the_session(rig: GroupRig) -> None:
    (first,) = rig.join(version=4)
    rig.pass_ms(SESSION_MS + 1)
    assert errors(rig.join(first.member_id, version=4)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert rig.group.is_abandoned
    assert len(rig.wheel) == 0


def test_rebalance_waits_for_ids_that_were_given_out(rig: GroupRig) -> None:
    (leader,) = rig.stable(None)
    (pending,) = rig.join(version=4)
    again = rig.join(leader)
    assert again == []
    other = rig.join(pending.member_id, version=4)
    assert again[0].generation_id == other[0].generation_id == 2


def test_rebalance_goes_on_when_an_id_that_was_given_out_expires(rig: GroupRig) -> None:
    (leader,) = rig.stable(None)
    rig.join(version=4)
    again = rig.join(leader)
    rig.pass_ms(SESSION_MS + 1)
    assert errors(again) == [ErrorCode.NONE]


def test_empty_group_waits_the_initial_delay_then_the_first_member_leads(rig: GroupRig) -> None:
    first, second = rig.join(), rig.join()
    rig.pass_ms(DELAY_MS - 1)
    assert first == second == []
    rig.pass_ms(DELAY_MS + 2)  # the second one prolonged it
    assert first[0].leader == second[0].leader == first[0].member_id
    assert [member.member_id for member in first[0].members] == [first[0].member_id, second[0].member_id]
    assert [member.metadata for member in first[0].members] == [b"r", b"r"]
    assert second[0].members == []
    assert (first[0].protocol_type, first[0].protocol_name) == ("consumer", "range")
    assert rig.group.state is COMPLETING_REBALANCE


def test_initial_delay_waits_a_moment_for_ids_that_were_given_out(rig: GroupRig) -> None:
    first, (pending,) = rig.join(), rig.join(version=4)
    rig.pass_ms(DELAY_MS + 5)
    assert first == []
    second = rig.join(pending.member_id, version=4)
    rig.pass_ms(2 * DELAY_MS)  # it was prolonged by the second one
    assert first[0].generation_id == second[0].generation_id == 1


def test_initial_delay_waits_only_a_moment_for_ids_that_were_given_out(rig: GroupRig) -> None:
    first = rig.join()
    rig.join(version=4)
    rig.pass_ms(DELAY_MS + 25)
    assert first[0].generation_id == 1
    assert len(rig.group.pending) == 1


def test_initial_delay_is_prolonged_while_members_come_up_to_the_rebalance_timeout(rig: GroupRig) -> None:
    waiting = [rig.join(rebalance_ms=10_000)]
    for _ in range(9):
        assert waiting[0] == []
        rig.pass_ms(1_000)
        waiting.append(rig.join(rebalance_ms=10_000))
    rig.pass_ms(3_001)
    assert [answer[0].generation_id for answer in waiting] == [1] * 10


def test_join_without_protocols_or_protocol_type_is_inconsistent(rig: GroupRig) -> None:
    assert errors(rig.join(protocols=())) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert errors(rig.join(protocol_type="")) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert rig.groups.get("g") is None


def test_member_without_a_common_protocol_is_inconsistent(rig: GroupRig) -> None:
    rig.joined(None)
    assert errors(rig.join(protocols=[("roundrobin", b"")])) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert errors(rig.join(protocol_type="connect")) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert len(rig.group.members) == 1


def test_members_vote_among_the_protocols_that_all_support(rig: GroupRig) -> None:
    rig.join(protocols=[("a", b""), ("b", b""), ("c", b"")])
    rig.join(protocols=[("c", b""), ("b", b"")])
    last = rig.join(protocols=[("b", b"2"), ("c", b"")])
    rig.pass_ms(2 * DELAY_MS + 1)
    assert last[0].protocol_name == "b"


def test_protocol_that_only_leavers_did_not_support_becomes_common(rig: GroupRig) -> None:
    old, new = rig.stable(None, None, protocols=TWO)
    rig.leave(old)
    again = rig.join(new, protocols=[("sticky", b"s")])
    assert again[0].protocol_name == "sticky"


def test_group_takes_no_more_than_its_maximum_size(rig: GroupRig) -> None:
    rig.settings = SETTINGS._replace(group_max_size=2)
    rig.join()
    rig.join()
    assert errors(rig.join()) == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    rig.pass_ms(2 * DELAY_MS + 1)
    assert errors(rig.join()) == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert len(rig.group.members) == 2


def test_member_that_rejoins_a_group_that_became_too_large_is_put_out_and_the_others_go_on(rig: GroupRig) -> None:
    first, second, third = rig.stable(None, None, None)
    rig.settings = SETTINGS._replace(group_max_size=2)
    assert rig.join(first) == []
    waiting = rig.join(second)
    assert errors(rig.join(third)) == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert errors(waiting) == [ErrorCode.NONE]
    assert set(rig.group.members) == {first, second}


def test_second_join_of_a_waiting_member_ends_the_first(rig: GroupRig) -> None:
    first, _ = rig.stable(None, None)
    older = rig.join(first)
    newer = rig.join(first)
    assert errors(older) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert newer == []
    assert rig.group.joins_waiting == 1


def test_join_repeated_after_its_answer_was_lost_gets_the_same_generation(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    again = rig.join(leader)
    assert (again[0].generation_id, len(again[0].members)) == (1, 2)
    assert rig.join(follower)[0].generation_id == 1
    assert rig.group.state is COMPLETING_REBALANCE


def test_join_with_changed_metadata_while_completing_starts_over(rig: GroupRig) -> None:
    leader, follower = rig.joined(None, None)
    waiting = rig.sync(follower, 1)
    assert rig.join(leader, protocols=[("range", b"other")]) == []
    assert errors(waiting) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert rig.group.state is PREPARING_REBALANCE


def test_follower_that_says_the_same_in_a_stable_group_stops_nobody(rig: GroupRig) -> None:
    leader, follower = rig.stable(None, None)
    (again,) = rig.join(follower)
    assert (again.generation_id, again.leader, again.members) == (1, leader, [])
    assert rig.sync(follower, 1)[0].assignment == b"1"
    assert rig.group.state is STABLE


def test_leader_that_joins_a_stable_group_again_wants_a_rebalance(rig: GroupRig) -> None:
    leader, follower = rig.stable(None, None)
    first = rig.join(leader)
    assert rig.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    second = rig.join(follower)
    assert first[0].generation_id == second[0].generation_id == 2


def test_follower_with_a_new_subscription_starts_a_rebalance(rig: GroupRig) -> None:
    _, follower = rig.stable(None, None)
    assert rig.join(follower, protocols=[("range", b"more")]) == []
    assert rig.group.state is PREPARING_REBALANCE


def test_join_answer_that_sends_the_next_request_at_once_finds_a_complete_state(rig: GroupRig) -> None:
    """A connection runs its next request inside the answer to the last one."""
    leader, follower = rig.stable(None, None)
    rig.join(leader)
    assert rig.group.members[leader].join_answer is not None
    seen: list[ErrorCode] = []

    def leave_at_once(_: object) -> None:
        seen.extend(errors(rig.leave(leader)))

    rig.group.members[leader].join_answer = leave_at_once
    other = rig.join(follower)
    assert seen == [ErrorCode.NONE]
    assert errors(other) == [ErrorCode.NONE]
    assert set(rig.group.members) == {follower}


def test_new_member_that_waits_too_long_for_its_first_generation_is_dropped(rig: GroupRig) -> None:
    (old,) = rig.stable(None)
    rig.group.members[old].rebalance_timeout_ms = 1_000_000
    new = rig.join()
    assert list(rig.keep_alive([old], 1, 303_000))[-1] == ErrorCode.REBALANCE_IN_PROGRESS
    assert errors(new) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_version_0_has_one_timeout_for_both(rig: GroupRig) -> None:
    rig.join(version=0, rebalance_ms=-1)
    assert rig.group.rebalance_timeout_ms() == SESSION_MS


def test_rebalance_timeout_is_the_longest_of_all_members(rig: GroupRig) -> None:
    rig.join(rebalance_ms=REBALANCE_MS)
    rig.join(rebalance_ms=2 * REBALANCE_MS)
    assert rig.group.rebalance_timeout_ms() == 2 * REBALANCE_MS


def test_group_of_which_nobody_is_left_when_the_delay_ends_is_empty(rig: GroupRig) -> None:
    rig.join()
    rig.leave(next(iter(rig.group.members)))
    rig.pass_ms(DELAY_MS + 1)
    assert rig.group.state is EMPTY
    assert rig.group.generation == 1
