"""Options: the names of Spark's own Kafka source, and what is said of those that can't be meant."""

import re

import pytest

from ottla.core.types import TopicPartition
from ottla.spark.offsets import Bound, BoundKind
from ottla.spark.options import OptionError, ReadOptions, Use, parse_read_options, parse_write_options

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(use: Use = Use.BATCH, **options: str) -> ReadOptions:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return parse_read_options(SERVERS | {"subscribe": "orders"} | named, use)


def complaint(use: Use = Use.BATCH, **options: str) -> str:
    with pytest.raises(OptionError) as caught:
        read(use, **options)
    return str(caught.value)


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    batch, stream = read(), read(Use.STREAM)
    assert batch.starting == Bound(BoundKind.EARLIEST)
    assert stream.starting == Bound(BoundKind.LATEST)
    assert batch.ending == Bound(BoundKind.LATEST)
    assert batch.fails_on_data_loss
    assert not batch.includes_headers
    assert stream.max_trigger_delay_ms == 15 * 60 * 1000
    assert batch.poll_timeout_ms == 120_000
    assert batch.client == {"bootstrap.servers": "127.0.0.1:9092", "client.id": "ottla-spark"}


def test_names_are_known_in_lower_case_too() -> None:
    parsed = parse_read_options(
        {
            "kafka.bootstrap.servers": "h:1",
            "subscribe": "a, b",
            "failondataloss": "FALSE",
            "includeheaders": "true",
            "minpartitions": "4",
            "maxpartitions": "6",
            "maxrecordsperpartition": "9",
            "startingoffsets": "latest",
            "maxoffsetspertrigger": "100",
            "minoffsetspertrigger": "10",
            "maxtriggerdelay": "30s",
            "kafkaconsumer.polltimeoutms": "512",
        },
        Use.STREAM,
    )
    assert parsed.subscription.topics == ("a", "b")
    assert not parsed.fails_on_data_loss
    assert parsed.includes_headers
    assert (parsed.min_partitions, parsed.max_partitions, parsed.max_records_per_partition) == (4, 6, 9)
    assert (parsed.max_offsets_per_trigger, parsed.min_offsets_per_trigger) == (100, 10)
    assert parsed.max_trigger_delay_ms == 30_000
    assert parsed.poll_timeout_ms == 512


def test_client_settings_pass_through_and_are_checked() -> None:
    assert read(kafka__isolation__level="read_committed").reads_committed
    assert read(kafka__fetch__max__bytes="1000").client["fetch.max.bytes"] == "1000"
    assert "kafka.*: fetch.max.bytes=many" in complaint(kafka__fetch__max__bytes="many")
    assert re.search(r"kafka\.\*.* fetch\.max\.byts.* fetch\.max\.bytes", complaint(kafka__fetch__max__byts="1"))


def test_what_would_name_a_group_names_the_client() -> None:
    assert read(groupIdPrefix="mine").client["client.id"] == "mine"
    assert read(kafka__group__id="mine").client["client.id"] == "mine"
    assert "group.id" not in read(kafka__group__id="mine").client


def test_subscriptions() -> None:
    pattern = parse_read_options(SERVERS | {"subscribePattern": "ml_.*"}, Use.BATCH).subscription
    assert (pattern.pattern, str(pattern)) == ("ml_.*", "subscribePattern ml_.*")
    assigned = parse_read_options(SERVERS | {"assign": '{"a": [1]}'}, Use.BATCH).subscription
    assert assigned.topic_partitions == (TopicPartition("a", 1),)
    with pytest.raises(OptionError, match="none is given"):
        parse_read_options(SERVERS, Use.BATCH)
    assert "subscribe and assign are given" in complaint(assign='{"a": [1]}')
    with pytest.raises(OptionError, match="no pattern"):
        parse_read_options(SERVERS | {"subscribePattern": "("}, Use.BATCH)
    with pytest.raises(OptionError, match="expected topics"):
        parse_read_options(SERVERS | {"subscribe": " , "}, Use.BATCH)
    with pytest.raises(OptionError, match="is not a partition"):
        parse_read_options(SERVERS | {"assign": '{"a": ["x"]}'}, Use.BATCH)


def test_bounds_by_offset_and_by_time() -> None:
    topic_partition = TopicPartition("orders", 0)
    assert read(startingOffsets='{"orders": {"0": -2}}').starting == Bound(BoundKind.OFFSETS, {topic_partition: -2})
    assert read(startingTimestamp="7").starting == Bound(BoundKind.TIMESTAMP, timestamp_ms=7)
    by_time = read(startingOffsetsByTimestamp='{"orders": {"0": 5}}', startingOffsets="earliest")
    assert by_time.starting == Bound(BoundKind.TIMESTAMPS, {topic_partition: 5})
    both = read(startingOffsetsByTimestamp='{"orders": {"0": 5}}', startingTimestamp="7")
    assert both.starting == Bound(BoundKind.TIMESTAMP, timestamp_ms=7)
    assert read(endingTimestamp="7").ending == Bound(BoundKind.TIMESTAMP, timestamp_ms=7)
    assert read(endingOffsets='{"orders": {"0": -1}}').ending == Bound(BoundKind.OFFSETS, {topic_partition: -1})
    assert read(startingOffsetsByTimestampStrategy="LATEST").begins_at_end_without_match


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("startingOffsets", "lastest", "expected earliest, latest, or offsets"),
        ("startingOffsets", "latest", "would read nothing"),
        ("startingOffsets", '{"orders": {"0": -1}}', "would read nothing"),
        ("startingOffsets", '{"orders": {"0": -3}}', "below -2"),
        ("endingOffsets", "earliest", "would read nothing"),
        ("endingOffsets", '{"orders": {"0": -2}}', "would read nothing"),
        ("startingTimestamp", "yesterday", "expected a whole number"),
        ("startingOffsetsByTimestamp", '{"orders": {"0": -5}}', "a time below 0"),
        ("startingOffsetsByTimestampStrategy", "earliest", "expected error or latest"),
        ("failOnDataLoss", "no", "expected true or false"),
        ("minPartitions", "0", "at least 1"),
        ("maxTriggerDelay", "soon", "expected a duration"),
        ("fetchOffset.numRetries", "3", "kafka.default.api.timeout.ms"),
        ("kafka.auto.offset.reset", "latest", "startingOffsets says where"),
        ("kafka.key.deserializer", "x", "cast the column"),
        ("topic", "orders", "is not for a batch query"),
        ("subscrib", "orders", "did you mean subscribe"),
        ("starting", "orders", "unknown option starting"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_expected(option: str, value: str, expected: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_read_options(SERVERS | {"subscribe": "orders", option: value}, Use.BATCH)
    assert expected in str(caught.value)
    assert option.lower() in str(caught.value).lower()


def test_all_problems_are_told_at_once() -> None:
    assert "it is above maxPartitions=2" in complaint(minPartitions="3", maxPartitions="2")
    said = complaint(minPartitions="-1", includeHeaders="maybe", subscrib="x")
    assert "minPartitions=-1" in said
    assert "includeHeaders=maybe" in said
    assert "subscrib" in said


def test_a_stream_has_no_end() -> None:
    assert "a streaming query has no end" in complaint(Use.STREAM, endingOffsets="latest")
    assert "is above maxOffsetsPerTrigger=5" in complaint(
        Use.STREAM, minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5"
    )


def test_servers_are_needed() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is needed"):
        parse_read_options({"subscribe": "a"}, Use.BATCH)


def test_writing_has_options_of_its_own() -> None:
    parsed = parse_write_options(SERVERS | {"topic": "orders", "checkpointLocation": "/x", "kafka.acks": "1"})
    assert (parsed.topic, parsed.client["acks"]) == ("orders", "1")
    assert parse_write_options(SERVERS).topic is None
    with pytest.raises(OptionError, match="startingoffsets is not for writing"):
        parse_write_options(SERVERS | {"startingOffsets": "latest"})
    with pytest.raises(OptionError, match="at least once"):
        parse_write_options(SERVERS | {"kafka.transactional.id": "x"})
