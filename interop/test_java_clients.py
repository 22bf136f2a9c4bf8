"""Apache Kafka's own Java clients, through its command-line tools, against our broker."""

import json
import re
from pathlib import Path

import pytest

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic
from interop.kafka_peer import run_tool

pytestmark = pytest.mark.usefixtures("kafka_tools")

TOOLS = "org.apache.kafka.tools"
LINES = [f"line {number}" for number in range(200)]


def console_produce(broker: BrokerProcess, topic: str, lines: list[str], *arguments: str) -> None:
    connect = ["--bootstrap-server", broker.bootstrap, "--topic", topic]
    run_tool(f"{TOOLS}.ConsoleProducer", [*connect, *arguments], stdin="".join(f"{line}\n" for line in lines))


def console_consume(
    broker: BrokerProcess, topic: str, count: int, *arguments: str, offset: str = "earliest"
) -> list[str]:
    """By assignment of partition 0: no group takes part."""
    connect = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0", "--offset", offset]
    limits = ["--max-messages", str(count), "--timeout-ms", "30000"]
    return run_tool(f"{TOOLS}.consumer.ConsoleConsumer", [*connect, *limits, *arguments]).stdout.splitlines()


def offsets_of(broker: BrokerProcess, topic: str, *, time: str) -> list[str]:
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--time", time]
    return run_tool(f"{TOOLS}.GetOffsetShell", arguments).stdout.split()


@pytest.mark.smoke
def test_console_producer_and_consumer_round_trip(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("java-console")
    console_produce(broker, topic, LINES)
    assert console_consume(broker, topic, len(LINES)) == LINES


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_console_round_trip_with_codec(broker: BrokerProcess, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic(f"java-{codec}")
    console_produce(broker, topic, LINES, "--compression-codec", codec)
    assert console_consume(broker, topic, len(LINES)) == LINES


def test_keys_headers_and_timestamps_arrive_at_java_consumer(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("java-headers")
    reader = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    console_produce(broker, topic, ["h1:v1,h2:v2\tkey\tvalue"], *reader)
    printed = ["print.key=true", "print.headers=true", "print.offset=true", "print.timestamp=true"]
    arguments = [word for each in printed for word in ("--formatter-property", each)]
    (line,) = console_consume(broker, topic, 1, *arguments)
    assert re.fullmatch(r"CreateTime:\d{13}\tOffset:0\th1:v1,h2:v2\tkey\tvalue", line)


def test_java_consumer_starts_at_offset(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("java-seek")
    console_produce(broker, topic, LINES)
    assert console_consume(broker, topic, 50, offset="150") == LINES[150:]


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
    assert console_consume(broker, topic, 80) == LINES[120:]


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


def test_java_creates_and_lists_topics(broker: BrokerProcess) -> None:
    connect = ["--bootstrap-server", broker.bootstrap]
    run_tool(f"{TOOLS}.TopicCommand", [*connect, "--create", "--topic", "java-made", "--partitions", "3"])
    assert "java-made" in run_tool(f"{TOOLS}.TopicCommand", [*connect, "--list"]).stdout.split()


@pytest.mark.smoke
def test_java_reads_api_versions(broker: BrokerProcess) -> None:
    printed = run_tool(f"{TOOLS}.BrokerApiVersionsCommand", ["--bootstrap-server", broker.bootstrap]).stdout
    assert re.search(r"Produce\(0\): 0 to \d+ \[usable: \d+\]", printed), printed
