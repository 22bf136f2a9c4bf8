"""A member's way through its group, without a network: which step follows which answer."""

import pytest

from ottla.clients.errors import BrokerError
from ottla.clients.membership import NO_GENERATION, Membership, Step
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition

OWNED = [TopicPartition("t", 0)]


def joined(membership: Membership, *, generation_id: int = 1) -> None:
    membership.on_joined(
        ErrorCode.NONE, member_id="m", generation_id=generation_id, protocol_name="range", leader_id="m"
    )


def stable() -> Membership:
    membership = Membership("g", heartbeat_interval_ms=3_000)
    membership.on_coordinator(is_known=True)
    joined(membership)
    membership.on_synced(ErrorCode.NONE, OWNED, now_ms=1_000)
    return membership


def test_the_way_in() -> None:
    membership = Membership("g", heartbeat_interval_ms=3_000)
    assert membership.next_step(0) is Step.FIND_COORDINATOR
    membership.on_coordinator(is_known=True)
    assert membership.next_step(0) is Step.JOIN
    membership.on_joined(ErrorCode.MEMBER_ID_REQUIRED, member_id="m", generation_id=-1, protocol_name="", leader_id="")
    assert (membership.next_step(0), membership.member_id) == (Step.JOIN, "m")
    joined(membership)
    assert (membership.next_step(0), membership.is_leader) == (Step.SYNC, True)
    membership.on_synced(ErrorCode.NONE, OWNED, now_ms=1_000)
    assert membership.owned == OWNED
    assert (membership.next_step(3_999), membership.idle_ms(3_999)) == (Step.NOTHING, 1)
    assert (membership.next_step(4_000), membership.idle_ms(4_000)) == (Step.HEARTBEAT, 0)


def test_a_rebalance_takes_the_partitions_and_keeps_the_right_to_commit() -> None:
    membership = stable()
    membership.on_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS, now_ms=4_000)
    assert membership.owned is None
    assert (membership.must_rejoin, membership.may_commit, membership.member_id) == (True, True, "m")
    assert membership.next_step(4_000) is Step.JOIN


@pytest.mark.parametrize(
    ("error_code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m")]
)
def test_a_forgotten_member_joins_anew_and_commits_nothing(error_code: ErrorCode, member_id: str) -> None:
    membership = stable()
    membership.on_heartbeat(error_code, now_ms=4_000)
    assert (membership.generation_id, membership.may_commit) == (NO_GENERATION, False)
    assert (membership.next_step(4_000), membership.member_id) == (Step.JOIN, member_id)


@pytest.mark.parametrize("error_code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_moved_coordinator_is_looked_for_and_the_partitions_are_kept(error_code: ErrorCode) -> None:
    membership = stable()
    membership.on_heartbeat(error_code, now_ms=4_000)
    assert (membership.next_step(4_000), membership.owned, membership.retry_wait) == (
        Step.FIND_COORDINATOR,
        OWNED,
        True,
    )
    membership.on_coordinator(is_known=True)
    assert membership.next_step(7_000) is Step.HEARTBEAT


def test_a_sync_that_failed_leads_back_to_joining() -> None:
    membership = Membership("g", heartbeat_interval_ms=3_000)
    membership.on_coordinator(is_known=True)
    joined(membership)
    membership.on_synced(ErrorCode.REBALANCE_IN_PROGRESS, [], now_ms=0)
    assert (membership.next_step(0), membership.owned) == (Step.JOIN, None)


def test_a_commit_that_was_refused_tells_what_the_member_missed() -> None:
    membership = stable()
    assert membership.on_committed(ErrorCode.NONE)
    assert not membership.on_committed(ErrorCode.REBALANCE_IN_PROGRESS)
    assert membership.must_rejoin
    assert not membership.on_committed(ErrorCode.UNKNOWN_MEMBER_ID)
    assert not membership.may_commit


@pytest.mark.parametrize("error_code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL])
def test_what_ends_the_membership_is_raised_with_the_group_in_it(error_code: ErrorCode) -> None:
    membership = Membership("g", heartbeat_interval_ms=3_000)
    with pytest.raises(BrokerError, match="group g: joining: " + error_code.name):
        membership.on_joined(error_code, member_id="", generation_id=-1, protocol_name="", leader_id="")
