"""The JSON form of offsets: that of Spark's own Kafka source."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.types import TopicPartition
from ottla.spark.offsets import from_json, parse_numbers, parse_topic_partitions, to_json

topic_partitions = st.builds(TopicPartition, st.text("abc.-_", min_size=1, max_size=8), st.integers(0, 200))


@given(st.dictionaries(topic_partitions, st.integers(0, 2**62), max_size=20))
def test_offsets_come_back_from_their_json(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


def test_json_is_that_of_sparks_kafka_source() -> None:
    offsets = {TopicPartition("b", 10): 7, TopicPartition("b", 2): 5, TopicPartition("a", 0): 23}
    assert json.dumps(to_json(offsets)) == '{"a": {"0": 23}, "b": {"2": 5, "10": 7}}'


def test_parse_numbers_takes_what_a_user_writes() -> None:
    parsed = parse_numbers('{"a": {"0": 23, "1": -2}, "b": {"0": -1}}')
    assert parsed == {TopicPartition("a", 0): 23, TopicPartition("a", 1): -2, TopicPartition("b", 0): -1}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "no JSON"),
        ("[]", "expected the like of"),
        ("{}", "expected the like of"),
        ('{"a": 1}', "topic a has 1"),
        ('{"a": {"x": 1}}', "'x' is not a partition"),
        ('{"a": {"-1": 1}}', "'-1' is not a partition"),
        ('{"a": {"0": "1"}}', 'a-0 has "1"'),
        ('{"a": {"0": true}}', "a-0 has true"),
        ('{"a": {"0": 1.5}}', "a-0 has 1.5"),
    ],
)
def test_parse_numbers_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("{", "\\{")):
        parse_numbers(text)


def test_parse_places_takes_lists_of_partitions() -> None:
    assert parse_topic_partitions('{"b": [1, 0, 1], "a": [3]}') == (
        TopicPartition("a", 3),
        TopicPartition("b", 0),
        TopicPartition("b", 1),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 0}', "expected a list"),
        ('{"a": ["0"]}', "is not a partition"),
        ('{"a": [-1]}', "is not a partition"),
        ('{"a": []}', "no partition"),
    ],
)
def test_parse_places_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_topic_partitions(text)
