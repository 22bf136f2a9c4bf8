"""The plan of a streaming query, without Spark: what it asks the reader, in its order."""

import json
import logging
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla import Admin, TopicPartition
from ottla.spark.data_loss import DataLoss
from ottla.spark.log_view import NothingToRead
from ottla.spark.options import Use
from ottla.spark.stream_reader import OttlaStreamReader
from ottla.testing.broker import OttlaBroker
from tests.spark.rows import offsets_of, read_options

# One broker for all: each test has topics of its own.
pytestmark = [pytest.mark.process, pytest.mark.ottla(scope="session")]

ALL = ReadAllAvailable()
Json = dict[str, dict[str, int]]


class Clock:
    """Seconds that only the test moves."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@contextmanager
def started(broker: OttlaBroker, clock: Clock | None = None, **options: str) -> Iterator[OttlaStreamReader]:
    named = {"startingOffsets": "earliest"} | options
    reader = OttlaStreamReader(read_options(broker, Use.STREAM, **named), clock or Clock())
    try:
        yield reader
    finally:
        reader.stop()


def ranges(reader: OttlaStreamReader, start: Json, end: Json) -> dict[str, tuple[int, int]]:
    # Through JSON, as Spark keeps it.
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    slices = [each for part in reader.partitions(start, end) for each in part.value]
    return {str(each.topic_partition): (each.start, each.end) for each in slices}


def test_a_stream_begins_reads_and_goes_on(ottla_broker: OttlaBroker) -> None:
    topic = ottla_broker.create_topic("stream-t", partitions=2)
    ottla_broker.produce(topic, ["a", "b"], partition=0)
    with started(ottla_broker, subscribe=topic) as reader:
        initial = reader.initialOffset()
        assert initial == {"stream-t": {"0": 0, "1": 0}}
        first = reader.latestOffset(initial, ALL)
        assert first == {"stream-t": {"0": 2, "1": 0}}
        assert ranges(reader, initial, first) == {"stream-t-0": (0, 2)}
        assert reader.latestOffset(first, ALL) == first
        ottla_broker.produce(topic, ["c"], partition=1)
        second = reader.latestOffset(first, ALL)
        assert ranges(reader, first, second) == {"stream-t-1": (0, 1)}
        assert reader.reportLatestOffset() == second


def test_workers_get_a_copy_that_only_reads(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, ["a", "b"])
    with started(ottla_broker, subscribe=ottla_topic) as reader:
        initial = reader.initialOffset()
        parts = reader.partitions(initial, reader.latestOffset(initial, ALL))
        copy, (part,) = pickle.loads(pickle.dumps((reader, parts)))
        assert offsets_of(copy.read(part)) == [0, 1]


def test_where_a_query_began_outlives_a_crash_in_its_first_batch(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, ["before"])
    with started(ottla_broker, subscribe=ottla_topic, startingOffsets="latest") as reader:
        initial = reader.initialOffset()
        ottla_broker.produce(ottla_topic, ["after"])
        noted = reader.latestOffset(initial, ALL)
        assert noted == initial
        assert ranges(reader, initial, noted) == {}
    with started(ottla_broker, subscribe=ottla_topic, startingOffsets="latest") as again:
        # Spark asks for the beginning anew, plans the batch that it has noted once more, and goes on from its end.
        assert ranges(again, again.initialOffset(), noted) == {}
        following = again.latestOffset(noted, ALL)
        assert ranges(again, noted, following) == {f"{ottla_topic}-0": (1, 2)}


def test_batches_are_limited(ottla_broker: OttlaBroker) -> None:
    topic = ottla_broker.create_topic("limited-t", partitions=2)
    ottla_broker.produce(topic, ["v"] * 30, partition=0)
    ottla_broker.produce(topic, ["v"] * 10, partition=1)
    with started(ottla_broker, subscribe=topic, maxOffsetsPerTrigger="20") as reader:
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(20)
        initial = reader.initialOffset()
        first = reader.latestOffset(initial, limit)
        assert first == {"limited-t": {"0": 15, "1": 5}}
        assert reader.latestOffset(first, limit) == {"limited-t": {"0": 30, "1": 10}}
        assert reader.latestOffset(initial, ALL) == {"limited-t": {"0": 30, "1": 10}}
        assert reader.reportLatestOffset() == {"limited-t": {"0": 30, "1": 10}}


def test_a_batch_waits_for_enough_but_not_for_ever(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    clock = Clock()
    options = {"subscribe": ottla_topic, "minOffsetsPerTrigger": "10", "maxTriggerDelay": "30s"}
    with started(ottla_broker, clock, **options) as reader:
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMinRows(10)
        initial = reader.initialOffset()
        ottla_broker.produce(ottla_topic, ["v"] * 9)
        assert reader.latestOffset(initial, limit) == initial
        ottla_broker.produce(ottla_topic, ["v"])
        first = reader.latestOffset(initial, limit)
        assert first == {ottla_topic: {"0": 10}}
        ottla_broker.produce(ottla_topic, ["v"])
        assert reader.latestOffset(first, limit) == first
        clock.now_s = 31.0
        assert reader.latestOffset(first, limit) == {ottla_topic: {"0": 11}}


def test_available_now_ends_where_the_log_ended(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, ["v"] * 10)
    options = {"subscribe": ottla_topic, "maxOffsetsPerTrigger": "6", "minOffsetsPerTrigger": "6"}
    with started(ottla_broker, **options) as reader:
        limit = reader.getDefaultReadLimit()
        reader.prepareForTriggerAvailableNow()
        initial = reader.initialOffset()
        ottla_broker.produce(ottla_topic, ["later"] * 10)
        with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
            admin.add_partitions({ottla_topic: 2})
        ottla_broker.produce(ottla_topic, ["later"], partition=1)
        first = reader.latestOffset(initial, limit)
        second = reader.latestOffset(first, limit)
        assert [first[ottla_topic]["0"], second[ottla_topic]["0"]] == [6, 10]
        assert reader.latestOffset(second, limit) == second
        assert second[ottla_topic].get("1", 0) == 0
    with started(ottla_broker, **options) as reader:
        reader.prepareForTriggerAvailableNow()
        last = reader.latestOffset(second, ALL)
        assert ranges(reader, second, last) == {f"{ottla_topic}-0": (10, 20), f"{ottla_topic}-1": (0, 1)}


def test_partitions_and_topics_that_are_added_are_read_from_their_beginning(ottla_broker: OttlaBroker) -> None:
    ottla_broker.create_topic("added_a")
    with started(ottla_broker, subscribePattern="added_.*", startingOffsets="latest") as reader:
        noted = reader.latestOffset(reader.initialOffset(), ALL)
        ranges(reader, noted, noted)
        with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
            admin.add_partitions({"added_a": 2})
        ottla_broker.create_topic("added_b")
        ottla_broker.produce("added_a", ["v"], partition=1)
        ottla_broker.produce("added_b", ["v"])
        end = reader.latestOffset(noted, ALL)
        assert ranges(reader, noted, end) == {"added_a-1": (0, 1), "added_b-0": (0, 1)}


def test_a_topic_that_does_not_exist_is_named(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    with started(ottla_broker, subscribe=f"{ottla_topic},nope") as reader:
        with pytest.raises(NothingToRead, match="nope doesn't exist at"):
            reader.initialOffset()
        # Out of a checkpoint that knows only one of them.
        with pytest.raises(NothingToRead, match="nope doesn't exist at"):
            reader.latestOffset({ottla_topic: {"0": 0}}, ALL)


def test_a_topic_that_is_deleted_is_named_or_left(ottla_broker: OttlaBroker, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("del-a", "del-b"):
        ottla_broker.create_topic(name)
        ottla_broker.produce(name, ["v"] * 3)
    start = {"del-a": {"0": 1}, "del-b": {"0": 1}}
    end = {"del-a": {"0": 3}, "del-b": {"0": 3}}
    ottla_broker.delete_topic("del-b")
    with started(ottla_broker, subscribe="del-a,del-b") as reader:
        with pytest.raises(DataLoss, match="del-b-0: the query has read from them, and the partitions are gone"):
            reader.latestOffset(start, ALL)
        with pytest.raises(DataLoss, match="del-b-0: offsets 1 to 2 are gone, as is the partition"):
            reader.partitions(start, end)
    with started(ottla_broker, subscribe="del-a,del-b", failOnDataLoss="false") as reader:
        with caplog.at_level(logging.WARNING, "ottla.spark"):
            following = reader.latestOffset(start, ALL)
        assert following == {"del-a": {"0": 3}}
        assert ranges(reader, start, following) == {"del-a-0": (1, 3)}
        assert "b-0" in caplog.text


def test_a_topic_that_is_made_anew_is_named_or_read_from_its_beginning(
    ottla_broker: OttlaBroker, ottla_topic: str
) -> None:
    ottla_broker.produce(ottla_topic, ["old"] * 3)

    def make_anew(count: int) -> None:
        ottla_broker.delete_topic(ottla_topic)
        ottla_broker.create_topic(ottla_topic)
        ottla_broker.produce(ottla_topic, ["new"] * count)

    with started(ottla_broker, subscribe=ottla_topic) as reader:
        initial = reader.initialOffset()
        first = reader.latestOffset(initial, ALL)
        make_anew(5)
        with pytest.raises(DataLoss, match="the topic was deleted and created again while the query ran"):
            reader.latestOffset(first, ALL)
    # Another run of the query knows no ids, but sees a log that is too short.
    make_anew(2)
    too_short = "had read up to offset 3, and the log ends at 2"
    with started(ottla_broker, subscribe=ottla_topic) as reader, pytest.raises(DataLoss, match=too_short):
        reader.latestOffset(first, ALL)
    with started(ottla_broker, subscribe=ottla_topic, failOnDataLoss="false") as reader:
        following = reader.latestOffset(first, ALL)
        assert ranges(reader, first, following) == {f"{ottla_topic}-0": (0, 2)}


def test_offsets_that_aged_out_are_named_or_passed_over(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, ["v"] * 10)
    with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(ottla_topic, 0): 4})
    start: Any = {ottla_topic: {"0": 1}}
    aged_out = "offsets 1 to 3 are gone, the log begins at 4"
    with started(ottla_broker, subscribe=ottla_topic) as reader, pytest.raises(DataLoss, match=aged_out):
        reader.partitions(start, reader.latestOffset(start, ALL))
    with started(ottla_broker, subscribe=ottla_topic, failOnDataLoss="false") as reader:
        assert ranges(reader, start, reader.latestOffset(start, ALL)) == {f"{ottla_topic}-0": (4, 10)}


def test_a_broker_that_restarts_between_batches_is_waited_for(ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    with started(ottla_broker, subscribe=ottla_topic) as reader:
        initial = reader.initialOffset()
        ottla_broker.produce(ottla_topic, ["v"])
        ottla_broker.restart(kill=True)
        assert reader.latestOffset(initial, ALL) == {ottla_topic: {"0": 1}}
