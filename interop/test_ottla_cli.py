"""`ottla topics`, `groups` and `configs` on Apache Kafka: what their own tests expect, and what only Kafka can show."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from interop.kafka_peer import KafkaPeer, run_tool
from tests.cli.conftest import MakeTopic, Ottla, make_topic, ottla  # noqa: F401
from tests.cli.test_configs import *  # noqa: F403
from tests.cli.test_groups import *  # noqa: F403
from tests.cli.test_topics import *  # noqa: F403
from tests.processes import eventually

pytestmark = pytest.mark.usefixtures("kafka_tools")

# The records are older than what a topic keeps: retention stays away from them.
NO_RETENTION = {"log.initial.task.delay.ms": "86400000", "log.retention.check.interval.ms": "86400000"}


@pytest.fixture(scope="module")
def bootstrap(kafka_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with KafkaPeer(tmp_path_factory.mktemp("kafka") / "data", overrides=NO_RETENTION) as kafka:
        yield kafka.bootstrap


def test_a_group_of_the_newer_protocol_is_described(ottla: Ottla, make_topic: MakeTopic, bootstrap: str) -> None:  # noqa: F811
    topic = make_topic("newer", partitions=2, records=3)
    settings = {"bootstrap.servers": bootstrap, "group.id": "newer", "group.protocol": "consumer"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        eventually(lambda: consumer.poll(0.1) is not None and len(consumer.assignment()) == 2)
        (described,) = ottla("groups", "describe", "newer", "--members", "--json").json
    finally:
        consumer.close()
    assert (described["type"], described["assignor"]) == ("consumer", "uniform")
    assert [place["partition"] for place in described["members"][0]["assignment"]] == [0, 1]


def test_kafka_s_tool_reads_our_plan_and_sees_our_offsets(
    ottla: Ottla,  # noqa: F811
    make_topic: MakeTopic,  # noqa: F811
    bootstrap: str,
    tmp_path: Path,
) -> None:
    topic = make_topic("both-tools", partitions=2, records=10)
    plan = str(tmp_path / "plan.csv")
    reset = ("groups", "reset-offsets", "both", "--topic", topic, "--to-offset", "6")
    assert ottla(*reset, "--execute", "--export", plan).code == 0
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    common = ["--bootstrap-server", bootstrap, "--group", "both"]
    seen = run_tool(tool, [*common, "--describe", "--offsets"]).stdout
    rows = [line.split()[:6] for line in seen.splitlines() if line.startswith("both ")]
    assert rows == [["both", topic, "0", "6", "10", "4"], ["both", topic, "1", "6", "10", "4"]]
    assert ottla("groups", "reset-offsets", "both", "--all-topics", "--to-earliest", "--execute").code == 0
    run_tool(tool, [*common, "--reset-offsets", "--from-file", plan, "--execute"])
    (described,) = ottla("groups", "describe", "both", "--json").json
    assert [part["current_offset"] for part in described["partitions"]] == [6, 6]


def test_describe_shows_the_same_as_kafka_s_tool(ottla: Ottla, bootstrap: str) -> None:  # noqa: F811
    assert ottla("topics", "create", "same", "--partitions", "3", "--config", "retention.ms=5").code == 0
    (ours,) = ottla("topics", "describe", "same", "--json").json
    tool = "org.apache.kafka.tools.TopicCommand"
    theirs = run_tool(tool, ["--bootstrap-server", bootstrap, "--describe", "--topic", "same"]).stdout
    assert f"TopicId: {ours['id']}" in theirs
    configs = ",".join(f"{name}={config['value']}" for name, config in ours["configs"].items())
    assert sorted(configs.split(",")) == sorted(theirs.split("Configs:")[1].split()[0].split(","))
    for part in ours["partitions"]:
        replicas = ",".join(map(str, part["replicas"]))
        assert f"Partition: {part['partition']}\tLeader: {part['leader']}\tReplicas: {replicas}" in theirs


def test_a_mistyped_broker_key_that_kafka_keeps_is_noticed(ottla: Ottla) -> None:  # noqa: F811
    ended = ottla("configs", "alter", "--broker-defaults", "--set", "log.retention.mss=1")
    assert ended.code == 0
    assert "names no key log.retention.mss; did you mean log.retention.ms?" in ended.err
    assert ottla("configs", "alter", "--broker-defaults", "--unset", "log.retention.mss").code == 0


def test_every_json_answer_is_one_document(ottla: Ottla, make_topic: MakeTopic) -> None:  # noqa: F811
    make_topic("documented")
    for command in (["topics", "list"], ["topics", "describe"], ["groups", "list"], ["groups", "describe", "*"]):
        assert isinstance(json.loads(ottla(*command, "--json").out), list)
