"""What others ask about groups: descriptions, lists, what may be deleted, which topics are read."""

from struct import pack

import pytest

from ottla.coordinator.group.states import GroupState
from ottla.core.errors import ErrorCode
from tests.coordinator.group.group_rig import GroupRig


@pytest.fixture
def rig() -> GroupRig:
    return GroupRig()


def subscription(*topics: str) -> bytes:
    """Version 3, of which only the start is ours to read."""
    names = b"".join(pack(">h", len(topic)) + topic.encode() for topic in topics)
    return pack(">hi", 3, len(topics)) + names + pack(">i", -1) + b"owned partitions and more"


def test_stable_group_is_described_with_metadata_and_assignments(rig: GroupRig) -> None:
    leader, follower = rig.stable("i", None)
    group = rig.groups.describe("g", 6)
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Stable", "consumer")
    assert group.protocol_data == "range"
    assert [(m.member_id, m.group_instance_id, m.member_metadata, m.member_assignment) for m in group.members] == [
        (leader, "i", b"r", b"0"),
        (follower, None, b"r", b"1"),
    ]
    assert (group.members[0].client_id, group.members[0].client_host) == ("c", "/127.0.0.1")


def test_group_in_a_rebalance_is_described_without_metadata(rig: GroupRig) -> None:
    leader, _ = rig.stable(None, None)
    rig.join(leader)
    group = rig.groups.describe("g", 5)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert {member.member_metadata for member in group.members} == {b""}


@pytest.mark.parametrize(("version", "error_code"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_group_that_is_not_there_is_dead(rig: GroupRig, version: int, error_code: ErrorCode) -> None:
    group = rig.groups.describe("nobody", version)
    assert (group.group_state, group.error_code) == ("Dead", error_code)


def test_groups_are_listed_with_state_and_type(rig: GroupRig) -> None:
    rig.stable(None)
    rig.groups.ensure_simple_group("simple")
    listed = {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in rig.groups.listed()}
    assert listed == {("g", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")}
    assert rig.groups.count_by_state()[GroupState.STABLE] == 1
    assert rig.groups.count_by_state()[GroupState.EMPTY] == 1


def test_only_empty_groups_can_be_deleted(rig: GroupRig) -> None:
    (only,) = rig.stable(None)
    assert rig.groups.check_deletable("g") == ErrorCode.NON_EMPTY_GROUP
    assert rig.groups.check_deletable("nobody") == ErrorCode.GROUP_ID_NOT_FOUND
    rig.leave(only)
    assert rig.groups.check_deletable("g") == ErrorCode.NONE


def test_single_offsets_of_a_busy_group_can_be_deleted_only_if_it_is_one_of_consumers(rig: GroupRig) -> None:
    rig.stable(None)
    assert rig.groups.check_offset_delete("g") == ErrorCode.NONE
    rig.join(group_id="connect", protocol_type="connect")
    assert rig.groups.check_offset_delete("connect") == ErrorCode.NON_EMPTY_GROUP
    assert rig.groups.check_offset_delete("nobody") == ErrorCode.GROUP_ID_NOT_FOUND


def test_simple_group_is_made_once_and_a_member_can_join_it(rig: GroupRig) -> None:
    rig.groups.ensure_simple_group("g")
    group = rig.group
    rig.groups.ensure_simple_group("g")
    assert rig.group is group
    assert group.protocol_type is None
    rig.stable(None)
    assert rig.group.protocol_type == "consumer"


def test_group_reads_the_topics_of_all_its_members(rig: GroupRig) -> None:
    first, second = rig.stable(None, None, protocols=[("range", subscription("orders"))])
    assert rig.groups.subscribes("g", "orders") is True
    assert rig.groups.subscribes("g", "payments") is False
    rig.join(second, protocols=[("range", subscription("orders", "payments"))])
    rig.join(first, protocols=[("range", subscription("orders"))])
    assert rig.groups.subscribes("g", "payments") is True
    rig.leave(first, second)
    assert rig.groups.subscribes("g", "orders") is False


def test_unreadable_subscription_counts_as_all_topics(rig: GroupRig) -> None:
    rig.stable(None, protocols=[("range", b"\x00\x00\x7f\xff\xff\xff")])
    assert rig.groups.subscribes("g", "orders") is True


def test_topics_of_other_kinds_of_groups_are_not_known(rig: GroupRig) -> None:
    rig.join(group_id="connect", protocol_type="connect")
    rig.groups.ensure_simple_group("simple")
    assert [rig.groups.subscribes(group_id, "t") for group_id in ("connect", "simple", "nobody")] == [None] * 3
