"""Apache Kafka's own Java clients, through its command-line tools, against our broker."""

import json
import re
from pathlib import Path

import pytest

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic
from interop.java_tools import (
    TOOLS,
    connect,
    console_consume,
    console_consume_partition,
    console_produce,
    group_rows,
    offsets_of,
)
from interop.kafka_peer import run_tool

pytestmark = pytest.mark.usefixtures("kafka_tools")

LINES = [f"line {number}" for number in range(200)]


@pytest.mark.smoke
def test_console_producer_and_consumer_round_trip(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("java-console")
    console_produce(broker, topic, LINES)
    assert console_consume_partition(broker, topic, len(LINES)) == LINES


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_console_round_trip_with_codec(broker: BrokerProcess, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic(f"java-{codec}")
    console_produce(broker, topic, LINES, "--compression-codec", codec)
    assert console_consume_partition(broker, topic, len(LINES)) == LINES


def test_keys_headers_and_timestamps_arrive_at_java_consumer(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("java-headers")
    reader = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    console_produce(broker, topic, ["h1:v1,h2:v2\tkey\tvalue"], *reader)
    printed = ["print.key=true", "print.headers=true", "print.offset=true", "print.timestamp=true"]
    arguments = [word for each in printed for word in ("--formatter-property", each)]
    (line,) = console_consume_partition(broker, topic, 1, *arguments)
    assert re.fullmatch(r"CreateTime:\d{13}\tOffset:0\th1:v1,h2:v2\tkey\tvalue", line)


def test_java_consumer_starts_at_offset(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("java-seek")
    console_produce(broker, topic, LINES)
    assert console_consume_partition(broker, topic, 50, offset="150") == LINES[150:]


@pytest.mark.smoke
def test_java_lists_offsets(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("java-offsets")
    console_produce(broker, topic, LINES)
    assert offsets_of(broker, topic, time="earliest") == [f"{topic}:0:0"]
    assert offsets_of(broker, topic, time="latest") == [f"{topic}:0:{len(LINES)}"]
    # The offset of the largest timestamp: the latest record, or an earlier one with the same time.
    (largest,) = offsets_of(broker, topic, time="max-timestamp")
    assert 0 <= int(largest.rpartition(":")[2]) < len(LINES)


@pytest.mark.smoke
def test_java_deletes_records(broker: BrokerProcess, create_topic: CreateTopic, tmp_path: Path) -> None:
    topic = create_topic("java-delete-records")
    console_produce(broker, topic, LINES)
    wish = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 120}]}
    wish_file = tmp_path / "offsets.json"
    wish_file.write_text(json.dumps(wish))
    arguments = ["--bootstrap-server", broker.bootstrap, "--offset-json-file", str(wish_file)]
    printed = run_tool(f"{TOOLS}.DeleteRecordsCommand", arguments).stdout
    assert re.search(rf"{topic}-0\s+low_watermark: 120", printed), printed
    assert offsets_of(broker, topic, time="earliest") == [f"{topic}:0:120"]
    assert console_consume_partition(broker, topic, 80) == LINES[120:]


@pytest.mark.parametrize(
    ("name", "extra"),
    [("defaults", []), ("acks-1", ["acks=1", "enable.idempotence=false"]), ("lz4", ["compression.type=lz4"])],
)
def test_producer_performance_sends_everything(
    broker: BrokerProcess, create_topic: CreateTopic, name: str, extra: list[str]
) -> None:
    topic = create_topic(f"java-performance-{name}")
    arguments = ["--topic", topic, "--num-records", "50000", "--record-size", "200", "--throughput", "-1"]
    arguments += ["--command-property", f"bootstrap.servers={broker.bootstrap}", *extra]
    printed = run_tool(f"{TOOLS}.ProducerPerformance", arguments).stdout
    assert "50000 records sent" in printed
    assert offsets_of(broker, topic, time="latest") == [f"{topic}:0:50000"]


@pytest.mark.smoke
def test_consumer_performance_reads_everything_as_a_group(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("java-consumer-performance", partitions=3)
    arguments = ["--topic", topic, "--num-records", "50000", "--record-size", "200", "--throughput", "-1"]
    run_tool(
        f"{TOOLS}.ProducerPerformance", [*arguments, "--command-property", f"bootstrap.servers={broker.bootstrap}"]
    )
    consume = ["--topic", topic, "--num-records", "50000", "--hide-header", "--group", "java-performance"]
    printed = run_tool(f"{TOOLS}.ConsumerPerformance", [*connect(broker), *consume]).stdout
    fields = [field.strip() for field in printed.splitlines()[-1].split(",")]
    assert int(fields[4]) >= 50_000, printed


@pytest.mark.smoke
def test_console_consumers_of_a_group_go_on_where_the_last_stopped(
    broker: BrokerProcess, create_topic: CreateTopic
) -> None:
    topic = create_topic("java-console-group")
    console_produce(broker, topic, LINES)
    as_group = ["--group", "java-console", "--from-beginning"]
    assert console_consume(broker, topic, 120, *as_group) == LINES[:120]
    assert console_consume(broker, topic, 80, *as_group) == LINES[120:]
    (row,) = group_rows(broker, "java-console")
    assert row[:6] == ["java-console", topic, "0", "200", "200", "0"]
