"""__consumer_offsets: Kafka's own formatters and its dump tool read what we write there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.cimpl import TopicPartition as KafkaTopicPartition

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic
from interop.kafka_peer import run_tool

pytestmark = [pytest.mark.usefixtures("kafka_tools"), pytest.mark.smoke]

GROUP = "readers"
SIMPLE_GROUP = "readers-without-group"
RECORDS = 20


@pytest.fixture(scope="module")
def consumed(broker: BrokerProcess, create_topic: CreateTopic) -> Iterator[str]:
    """A topic that a group has read and committed, with text, and of which a simple consumer committed too."""
    topic = create_topic("read", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    member = Consumer({**settings, "group.id": GROUP, "client.id": "reader"})
    member.subscribe([topic])
    seen = 0
    while seen < RECORDS:
        seen += len(member.consume(RECORDS, timeout=30))
    offset = KafkaTopicPartition(topic, 0, RECORDS, metadata="up to here")
    assert member.commit(offsets=[offset], asynchronous=False)[0].error is None
    simple = Consumer({**settings, "group.id": SIMPLE_GROUP})
    assert simple.commit(offsets=[KafkaTopicPartition(topic, 0, 7)], asynchronous=False)[0].error is None
    yield topic
    member.close()
    simple.close()


def formatted(broker: BrokerProcess, formatter: str, *arguments: str) -> list[dict[str, Any]]:
    """What `kafka-console-consumer --formatter` prints of the topic, one JSON object for each record that it knows."""
    printed = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        [
            *("--bootstrap-server", broker.bootstrap, "--topic", "__consumer_offsets", "--from-beginning"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}", "--timeout-ms", "15000", *arguments),
        ],
        check=False,  # it ends by its timeout
    ).stdout
    # One after the other, with nothing in between.
    decoder = json.JSONDecoder()
    records = []
    position = printed.find("{")
    while position >= 0:
        record, position = decoder.raw_decode(printed, position)
        records.append(record)
        position = printed.find("{", position)
    return records


def test_kafkas_formatter_reads_our_offsets(broker: BrokerProcess, consumed: str) -> None:
    records = formatted(broker, "OffsetsMessageFormatter")
    found = {record["key"]["data"]["group"]: record for record in records if record["value"]}
    key, value = found[GROUP]["key"]["data"], found[GROUP]["value"]["data"]
    assert key == {"group": GROUP, "topic": consumed, "partition": 0}
    assert value["offset"] == RECORDS
    assert value["metadata"].rstrip("\0") == "up to here"  # librdkafka's Python client sends the end of a C string too
    assert value["commitTimestamp"] > 1_700_000_000_000
    assert found[SIMPLE_GROUP]["value"]["data"]["offset"] == 7


def test_kafkas_formatter_reads_our_groups(broker: BrokerProcess, consumed: str) -> None:
    records = formatted(broker, "GroupMetadataMessageFormatter")
    of_group = [record for record in records if record["key"]["data"] == {"group": GROUP}]
    value = of_group[-1]["value"]["data"]
    assert (value["protocolType"], value["generation"]) == ("consumer", 1)
    (member,) = value["members"]
    assert member["memberId"] == value["leader"]
    assert (member["clientId"], member["clientHost"]) == ("reader", "/127.0.0.1")
    assert member["subscription"]
    assert member["assignment"]


def test_kafkas_dump_tool_decodes_our_records(broker: BrokerProcess, consumed: str) -> None:
    segments = [path for path in Path(broker.data_dir).glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    joined = ",".join(str(path) for path in segments)
    arguments = ["--files", joined, "--deep-iteration", "--print-data-log", "--offsets-decoder"]
    printed = run_tool("org.apache.kafka.tools.DumpLogSegments", arguments).stdout
    assert set(re.findall(r"isvalid: (\w+)", printed)) == {"true"}
    assert GROUP in printed
    assert "up to here" in printed
    assert "error" not in printed.lower(), printed
