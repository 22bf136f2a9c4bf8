"""What needs groups and offsets at once: deletion of groups, expiry, replay."""

import pytest

from ottla.core.errors import ErrorCode
from tests.coordinator.group.members import join_alone, leave
from tests.coordinator.group.shard_rig import DAY_MS, WEEK_MS, ShardRig, commit_request


@pytest.fixture
def rig() -> ShardRig:
    return ShardRig()


def delete_group(rig: ShardRig, group_id: str = "readers") -> ErrorCode:
    return rig.call(lambda answer: rig.shard.delete_group(group_id, answer))


def group_ids(rig: ShardRig) -> set[str]:
    return {group.group_id for group in rig.shard.groups.listed()}


def expire(rig: ShardRig) -> None:
    rig.execute(rig.shard.expire(rig.now_ms))


def test_deleted_group_takes_its_offsets_along_in_one_batch(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5), ("payments", 0, 5))
    rig.commit(("orders", 0, 7), group_id="others")
    before = len(rig.log)
    assert delete_group(rig) == ErrorCode.NONE
    assert [value for _, value in rig.log[before:]] == [None, None, None]
    assert group_ids(rig) == {"others"}
    assert not rig.shard.offsets.has_any("readers")
    assert {group.group_id for group in rig.reloaded().groups.listed()} == {"others"}


def test_group_with_members_is_not_deleted(rig: ShardRig) -> None:
    join_alone(rig, "readers", topics=["orders"])
    assert delete_group(rig) == ErrorCode.NON_EMPTY_GROUP
    assert group_ids(rig) == {"readers"}


def test_group_that_is_not_there_is_not_deleted(rig: ShardRig) -> None:
    assert delete_group(rig) == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_commit_on_its_way_go_with_their_group(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5))
    rig.holds_commits = True
    rig.start_commit(commit_request(("orders", 1, 9)))
    answers: list[ErrorCode] = []
    rig.execute(rig.shard.delete_group("readers", answers.append))
    rig.settle_held()
    rig.settle_held()
    assert answers == [ErrorCode.NONE]
    assert not rig.shard.offsets.has_any("readers")
    assert group_ids(rig) == set()


def test_offset_committed_behind_the_deletion_of_its_group_keeps_a_group(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5))
    rig.holds_commits = True
    rig.execute(rig.shard.delete_group("readers", lambda _: None))
    rig.start_commit(commit_request(("orders", 1, 9)))
    rig.settle_held()
    rig.settle_held()
    assert rig.offset_of("readers", partition=1) == 9
    assert group_ids(rig) == {"readers"}
    assert {group.group_id for group in rig.reloaded().groups.listed()} == {"readers"}


def test_offsets_of_a_simple_group_expire_by_their_commit(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5))
    rig.advance(DAY_MS)
    rig.commit(("orders", 1, 5))
    rig.advance(WEEK_MS - DAY_MS - 1)
    expire(rig)
    assert len(rig.shard.offsets) == 2
    rig.advance(1)
    expire(rig)
    assert rig.offset_of("readers") is None
    assert rig.offset_of("readers", partition=1) == 5
    rig.advance(DAY_MS)
    expire(rig)
    assert group_ids(rig) == set()
    assert len(rig.reloaded().offsets) == 0


def test_offsets_of_an_active_group_stay_but_for_topics_that_it_reads_no_more(rig: ShardRig) -> None:
    member_id, generation = join_alone(rig, "readers", topics=["orders"])
    fields = {"member_id": member_id, "generation_id_or_member_epoch": generation}
    rig.commit(("orders", 0, 5), ("payments", 0, 5), **fields)
    rig.now_ms += 2 * WEEK_MS  # the wheel stands: nobody's session ends
    expire(rig)
    assert rig.shard.offsets.of_group("readers").keys() == {"orders"}


def test_offsets_of_a_group_that_was_left_expire_by_when_it_became_empty(rig: ShardRig) -> None:
    member_id, generation = join_alone(rig, "readers", topics=["orders"])
    rig.commit(("orders", 0, 5), member_id=member_id, generation_id_or_member_epoch=generation)
    rig.now_ms += 2 * WEEK_MS
    leave(rig, "readers", member_id)
    rig.advance(WEEK_MS - 1)
    expire(rig)
    assert rig.offset_of("readers") == 5
    rig.advance(1)
    expire(rig)
    assert group_ids(rig) == set()


def test_empty_group_without_offsets_goes_at_once(rig: ShardRig) -> None:
    member_id, _ = join_alone(rig, "readers", topics=["orders"])
    expire(rig)
    assert group_ids(rig) == {"readers"}
    leave(rig, "readers", member_id)
    expire(rig)
    assert group_ids(rig) == set()
    assert list(rig.reloaded().groups.listed()) == []


def test_retention_that_the_client_chose_counts_from_its_commit(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5), version=4, retention_time_ms=1_000)
    rig.advance(999)
    expire(rig)
    assert rig.offset_of("readers") == 5
    rig.advance(1)
    expire(rig)
    assert rig.offset_of("readers") is None


def test_expiry_leaves_a_group_alone_whose_commit_is_on_its_way(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5))
    rig.advance(WEEK_MS)
    rig.holds_commits = True
    rig.start_commit(commit_request(("orders", 0, 9)))
    expire(rig)
    rig.settle_held()
    assert rig.offset_of("readers") == 9
    assert rig.reloaded().offsets.of_group("readers")["orders"][0].offset == 9


def test_much_that_expires_at_once_goes_in_bounded_batches(rig: ShardRig) -> None:
    for number in range(30):
        rig.commit(("orders", 0, 1), group_id=f"{number:03}" + "g" * 29_000)
    rig.advance(WEEK_MS)
    sizes = []
    while group_ids(rig):
        outcome = rig.shard.expire(rig.now_ms)
        sizes.append(sum(len(key) for key, _ in outcome.records))
        rig.execute(outcome)
    assert len(sizes) > 1
    assert max(sizes) < 600_000


def test_records_of_a_newer_kafka_are_passed_over(rig: ShardRig) -> None:
    rig.shard.replay(b"\x00\x03rest", b"whatever")
    assert group_ids(rig) == set()
