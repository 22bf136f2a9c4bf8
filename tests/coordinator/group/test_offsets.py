"""Commits, look-ups and deletions of offsets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.schemas import OffsetValue
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.coordinator.group.members import join_alone
from tests.coordinator.group.shard_rig import NOW_MS, TOPICS, ShardRig, commit_request, error_codes, loaded_from


@pytest.fixture
def rig() -> ShardRig:
    return ShardRig()


def delete(rig: ShardRig, *partitions: tuple[str, int], group_id: str = "readers") -> tuple[int, list[int]]:
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=index))
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=wanted) for name, wanted in topics.items()],
    )
    answers: list[OffsetDeleteResponse] = []
    rig.execute(
        rig.shard.offsets.delete(request, partitions_of=lambda topic: TOPICS.get(topic, ()), answer=answers.append)
    )
    (response,) = answers
    return response.error_code, [partition.error_code for topic in response.topics for partition in topic.partitions]


def test_commit_is_found_with_all_that_it_said(rig: ShardRig) -> None:
    assert rig.commit(("orders", 1, 42), metadata="where I was", leader_epoch=3) == [0]
    value = rig.shard.offsets.of_group("readers")["orders"][1]
    assert value == OffsetValue(42, 3, "where I was", NOW_MS)


def test_commit_without_metadata_keeps_an_empty_text(rig: ShardRig) -> None:
    assert rig.commit(("orders", 0, 1), metadata=None) == [0]
    assert rig.shard.offsets.of_group("readers")["orders"][0].metadata == ""


def test_unknown_partitions_are_refused_and_the_others_committed(rig: ShardRig) -> None:
    assert rig.commit(("orders", 0, 5), ("orders", 3, 5), ("nowhere", 0, 5), ("payments", 1, 6)) == [0, 3, 3, 0]
    assert rig.offset_of("readers") == 5
    assert rig.offset_of("readers", "payments", 1) == 6
    assert len(rig.shard.offsets) == 2


def test_metadata_over_the_limit_refuses_its_partition_only(rig: ShardRig) -> None:
    request = commit_request(("orders", 0, 5), ("orders", 1, 5))
    request.topics[0].partitions[1].committed_metadata = "m" * 101
    (results,) = rig.start_commit(request)
    assert error_codes(results) == [0, 12]
    assert rig.offset_of("readers", partition=1) is None


def test_offset_is_seen_when_its_record_is_committed(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5))
    rig.holds_commits = True
    answers = rig.start_commit(commit_request(("orders", 0, 9)))
    assert (answers, rig.offset_of("readers")) == ([], 5)
    rig.settle_held()
    assert error_codes(answers[0]) == [0]
    assert rig.offset_of("readers") == 9


def test_commit_whose_append_fails_is_told_so_and_changes_nothing(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5))
    rig.holds_commits = True
    answers = rig.start_commit(commit_request(("orders", 0, 9), ("nowhere", 0, 9)))
    rig.settle_held(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert error_codes(answers[0]) == [15, 3]
    assert rig.offset_of("readers") == 5
    assert not rig.shard.offsets.group_ids_in_flight()


def test_old_version_with_a_retention_of_its_own_stores_its_end(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5), version=4, retention_time_ms=1_000)
    assert rig.shard.offsets.of_group("readers")["orders"][0].expire_timestamp_ms == NOW_MS + 1_000
    assert rig.reloaded().offsets.of_group("readers")["orders"][0].expire_timestamp_ms == NOW_MS + 1_000


def test_commit_of_an_unknown_group_with_a_generation(rig: ShardRig) -> None:
    fields = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert rig.commit(("orders", 0, 5), version=8, **fields) == [ErrorCode.ILLEGAL_GENERATION]
    assert rig.commit(("orders", 0, 5), version=9, **fields) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert rig.log == []


def test_commit_of_old_generation_unknown_member_and_simple_consumer_are_refused_in_an_active_group(
    rig: ShardRig,
) -> None:
    member_id, generation = join_alone(rig, "readers", topics=["orders"])

    def commit(member: str, generation: int) -> list[int]:
        return rig.commit(("orders", 0, 5), member_id=member, generation_id_or_member_epoch=generation)

    assert commit(member_id, generation - 1) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit("stranger", generation) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit("", -1) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(member_id, generation) == [0]


def test_simple_consumer_makes_a_group_that_is_listed(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5))
    (listed,) = rig.shard.groups.listed()
    assert (listed.group_id, listed.protocol_type, listed.group_state) == ("readers", "", "Empty")


def test_deleted_offset_is_gone_and_the_others_stay(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5), ("orders", 1, 6), ("payments", 0, 7))
    assert delete(rig, ("orders", 0), ("orders", 2), ("orders", 9), ("nowhere", 0)) == (0, [0, 0, 3, 3])
    assert rig.offset_of("readers") is None
    assert rig.offset_of("readers", partition=1) == 6
    assert rig.reloaded().offsets.of_group("readers") == rig.shard.offsets.of_group("readers")


def test_offsets_of_a_group_that_is_not_there_cannot_be_deleted(rig: ShardRig) -> None:
    assert delete(rig, ("orders", 0)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_offsets_of_a_subscribed_topic_cannot_be_deleted(rig: ShardRig) -> None:
    member_id, generation = join_alone(rig, "readers", topics=["orders"])
    rig.commit(("orders", 0, 5), ("payments", 0, 5), member_id=member_id, generation_id_or_member_epoch=generation)
    assert delete(rig, ("orders", 0), ("payments", 0)) == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0])
    assert rig.offset_of("readers") == 5
    assert rig.offset_of("readers", "payments") is None


def test_offsets_of_an_active_group_that_is_no_consumer_cannot_be_deleted(rig: ShardRig) -> None:
    join_alone(rig, "workers", topics=[], protocol_type="connect")
    assert delete(rig, ("orders", 0), group_id="workers") == (ErrorCode.NON_EMPTY_GROUP, [])


def test_offsets_of_a_deleted_topic_go_even_if_their_commit_is_on_its_way(rig: ShardRig) -> None:
    rig.commit(("orders", 0, 5), ("payments", 0, 5))
    rig.commit(("orders", 2, 5), group_id="others")
    rig.holds_commits = True
    rig.start_commit(commit_request(("orders", 1, 9)))
    rig.execute(rig.shard.on_topics_deleted(["orders"]))
    rig.settle_held()
    rig.settle_held()
    assert rig.shard.offsets.of_group("readers").keys() == {"payments"}
    assert not rig.shard.offsets.has_any("others")
    assert not rig.shard.on_topics_deleted(["orders"]).records


def test_live_records_may_be_taken_while_offsets_come_and_go(rig: ShardRig) -> None:
    rig.commit(*(("orders", index, 1) for index in range(3)))
    records = rig.shard.offsets.live_records()
    first = next(records)
    rig.commit(("orders", 1, 2), ("payments", 0, 3))
    delete(rig, ("orders", 2))
    rewritten = loaded_from(rig, [first, *records]).offsets.of_group("readers")
    assert rewritten["orders"].keys() == {0, 1}
    assert rewritten["orders"][1].offset == 2


_partitions = st.sampled_from([(topic, index) for topic, indexes in TOPICS.items() for index in indexes])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.just("commit"),
                st.sampled_from(["a", "b"]),
                st.lists(_partitions, min_size=1, max_size=4),
                st.sampled_from([-1, 1_000]),
            ),
            st.tuples(st.just("delete"), st.sampled_from(["a", "b"]), st.lists(_partitions, min_size=1, max_size=3)),
            st.tuples(st.just("delete group"), st.sampled_from(["a", "b"])),
            st.tuples(st.just("delete topic"), st.sampled_from(list(TOPICS))),
            st.tuples(st.just("expire"), st.integers(0, 20_000)),
        ),
        max_size=25,
    )
)
def test_state_is_what_replaying_the_log_and_the_live_records_gives(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    rig = ShardRig()
    for number, (kind, *arguments) in enumerate(steps):
        if kind == "commit":
            group_id, partitions, retention_ms = arguments
            wanted = [(topic, index, number) for topic, index in dict.fromkeys(partitions)]
            rig.commit(*wanted, version=4, group_id=group_id, retention_time_ms=retention_ms)
        elif kind == "delete":
            delete(rig, *arguments[1], group_id=arguments[0])
        elif kind == "delete group":
            rig.call(lambda answer, group_id=arguments[0]: rig.shard.delete_group(group_id, answer))
        elif kind == "delete topic":
            rig.execute(rig.shard.on_topics_deleted(arguments))
        else:
            rig.advance(arguments[0])
            rig.execute(rig.shard.expire(rig.now_ms))
    for shard in (rig.reloaded(), loaded_from(rig, list(rig.shard.live_records()))):
        assert {group: shard.offsets.of_group(group) for group in "ab"} == {
            group: rig.shard.offsets.of_group(group) for group in "ab"
        }
        # A group of which nothing is left is as good as none: the next expiry takes it.
        for group_id in rig.shard.offsets.group_ids():
            assert shard.groups.get(group_id) is not None
