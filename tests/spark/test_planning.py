"""How offsets become batches and slices."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.types import TopicPartition
from ottla.spark.planning import (
    OFFSETS_WORTH_A_TASK,
    LogSlice,
    count_offsets,
    cut,
    is_due,
    limit_offsets,
    pack_slices,
    plan_slices,
    tasks_worthwhile,
)

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)

slices = st.lists(
    st.builds(
        lambda partition, start, count: LogSlice("t", partition, start, start + count),
        st.integers(0, 1000),
        st.integers(0, 10_000),
        st.integers(0, 300),
    ),
    max_size=8,
    unique_by=lambda each: each.partition,
)
counts = st.integers(1, 50)


def test_limit_shares_by_what_each_partition_has() -> None:
    assert limit_offsets({A: 0, B: 100}, {A: 300, B: 200}, 100) == {A: 75, B: 125}


def test_limit_leaves_all_where_there_is_less() -> None:
    assert limit_offsets({A: 0, B: 100}, {A: 300, B: 200}, 400) == {A: 300, B: 200}


def test_limit_moves_a_small_partition_beside_a_large_one() -> None:
    assert limit_offsets({A: 0, B: 0}, {A: 1_000_000, B: 3}, 10)[B] == 1


def test_limit_begins_a_new_partition_at_its_first_offset() -> None:
    assert limit_offsets({A: 5}, {A: 5, B: 100}, 10) == {A: 5, B: 10}


@given(st.dictionaries(st.sampled_from([A, B, C]), st.tuples(st.integers(0, 99), st.integers(0, 999))), counts)
def test_limited_batches_reach_the_end(ranges: dict[TopicPartition, tuple[int, int]], most: int) -> None:
    start = {topic_partition: first for topic_partition, (first, _) in ranges.items()}
    end = {topic_partition: first + count for topic_partition, (first, count) in ranges.items()}
    while start != end:
        limited = limit_offsets(start, end, most)
        assert 0 < count_offsets(start, limited) <= most + len(ranges)
        assert all(
            start[topic_partition] <= limited[topic_partition] <= end[topic_partition] for topic_partition in ranges
        )
        start = limited


def test_a_batch_is_due_when_enough_is_there_or_the_wait_is_over() -> None:
    assert is_due(available=1, least=None, waited_ms=0, longest_wait_ms=1000)
    assert is_due(available=10, least=10, waited_ms=0, longest_wait_ms=1000)
    assert is_due(available=1, least=10, waited_ms=1000, longest_wait_ms=1000)
    assert not is_due(available=9, least=10, waited_ms=999, longest_wait_ms=1000)


def test_cut_parts_are_about_the_same_size() -> None:
    assert [(part.start, part.end) for part in cut(LogSlice("t", 0, 5, 15, "id"), 3)] == [(5, 8), (8, 11), (11, 15)]
    assert cut(LogSlice("t", 0, 5, 7), 5) == [LogSlice("t", 0, 5, 6), LogSlice("t", 0, 6, 7)]


def test_slices_are_partitions_unless_asked_otherwise() -> None:
    assert plan_slices([LogSlice("t", 1, 0, 10), LogSlice("t", 0, 3, 3), LogSlice("a", 4, 1, 2)]) == [
        LogSlice("a", 4, 1, 2),
        LogSlice("t", 1, 0, 10),
    ]


def test_large_partitions_are_cut_and_small_ones_stay_whole() -> None:
    planned = plan_slices([LogSlice("t", 0, 0, 1000), LogSlice("t", 1, 0, 10)], at_least=5)
    assert [each.partition for each in planned] == [0, 0, 0, 0, 1]


@given(slices, st.none() | counts, st.none() | st.integers(10, 400))
def test_slices_are_every_offset_once(given: list[LogSlice], at_least: int | None, most: int | None) -> None:
    planned = plan_slices(given, at_least=at_least, most_offsets=most)
    for whole in given:
        parts = [part for part in planned if part.topic_partition == whole.topic_partition]
        assert sum(part.offset_count for part in parts) == whole.offset_count
        assert [part.start for part in parts[1:]] == [part.end for part in parts[:-1]]
        if parts:
            assert (parts[0].start, parts[-1].end) == (whole.start, whole.end)
    assert all(part.offset_count > 0 for part in planned)
    if most is not None:
        assert all(part.offset_count <= most for part in planned)
    total = sum(whole.offset_count for whole in given)
    if at_least is not None:
        assert len(planned) >= min(at_least, total)


def test_a_task_reads_one_slice_unless_there_would_be_too_many_tasks() -> None:
    planned = [LogSlice("t", partition, 0, count) for partition, count in enumerate((10, 1000, 400, 590))]
    assert pack_slices(planned) == pack_slices(planned, at_most=4) == [(each,) for each in planned]
    assert pack_slices(planned, at_most=2) == [(planned[1],), (planned[0], planned[2], planned[3])]


def test_a_small_batch_is_worth_one_task_and_a_large_one_as_many_as_are_allowed() -> None:
    few = [LogSlice("t", partition, 0, 10) for partition in range(4)]
    many = [LogSlice("t", 0, 0, OFFSETS_WORTH_A_TASK), LogSlice("t", 1, 0, 1)]

    assert tasks_worthwhile(few, at_most=4) == tasks_worthwhile([], at_most=4) == 1
    assert tasks_worthwhile(many, at_most=4) == 2
    assert tasks_worthwhile(many, at_most=1) == 1
    assert tasks_worthwhile(few, at_most=None) is None


@given(slices, counts)
def test_packs_are_every_slice_once_and_about_even(given: list[LogSlice], at_most: int) -> None:
    planned = plan_slices(given)
    packs = pack_slices(planned, at_most=at_most)
    assert sorted(each for pack in packs for each in pack) == planned
    assert len(packs) == min(at_most, len(planned))
    loads = [sum(each.offset_count for each in pack) for pack in packs]
    largest = max((each.offset_count for each in planned), default=0)
    assert all(list(pack) == sorted(pack) and pack for pack in packs)
    assert max(loads, default=0) <= min(loads, default=0) + largest
