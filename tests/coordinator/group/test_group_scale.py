"""Large groups: what a member costs does not grow with the number of the others."""

import sys
from types import FrameType

import pytest

from tests.coordinator.group.group_rig import DELAY_MS, GroupRig

PROTOCOLS = (("range", b"r"), ("sticky", b"s"), ("cooperative-sticky", b"c"))


def calls_of_a_rebalance(size: int) -> int:
    """Function calls, Python's and C's, while so many members join an empty group, sync, and one joins again."""
    rig = GroupRig()
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        members = rig.joined(*([None] * size), protocols=PROTOCOLS)
        for member_id in reversed(members):
            rig.sync(member_id, 1, dict.fromkeys(members, b"") if member_id == members[0] else None)
        for member_id in members:
            rig.heartbeat(member_id, 1)
        for member_id in members:
            rig.join(member_id, protocols=PROTOCOLS)
        rig.pass_ms(DELAY_MS)
    finally:
        sys.setprofile(None)
    assert rig.group.generation == 2
    return calls


@pytest.mark.parametrize("size", [100])
def test_work_of_a_rebalance_is_in_proportion_to_the_members(size: int) -> None:
    assert calls_of_a_rebalance(4 * size) < 4.5 * calls_of_a_rebalance(size)


def test_thousand_members_join_and_sync() -> None:
    rig = GroupRig()
    members = rig.stable(*([None] * 1_000), protocols=PROTOCOLS)
    assert len(set(members)) == 1_000
    group = rig.replayed().get("g")
    assert group is not None
    assert list(group.members) == members
