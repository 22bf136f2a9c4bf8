"""kafka-topics, kafka-log-dirs, kafka-cluster and kafka-broker-api-versions against our broker."""

import json
import re

import pytest

from interop.broker_process import BrokerProcess
from interop.conftest import CreateTopic
from interop.java_tools import TOOLS, connect, console_produce, topics
from interop.kafka_peer import run_tool

pytestmark = pytest.mark.usefixtures("kafka_tools")


@pytest.fixture(scope="module")
def made(broker: BrokerProcess) -> str:
    """A topic of three partitions with a setting, made by kafka-topics."""
    settings = ["--config", "retention.ms=3600000", "--config", "cleanup.policy=compact"]
    printed = topics(broker, "--create", "--topic", "made", "--partitions", "3", *settings)
    assert "Created topic made." in printed
    return "made"


@pytest.mark.smoke
def test_topic_is_described_with_its_partitions_and_settings(broker: BrokerProcess, made: str) -> None:
    printed = topics(broker, "--describe", "--topic", made)
    head, *partitions = printed.splitlines()
    assert re.search(r"TopicId: [\w-]{22}\tPartitionCount: 3\tReplicationFactor: 1\t", head), printed
    settings = set(head.split("Configs: ")[1].strip().split(","))
    assert {"retention.ms=3600000", "cleanup.policy=compact"} <= settings
    assert len(partitions) == 3
    for number, line in enumerate(partitions):
        assert re.search(rf"Partition: {number}\tLeader: (\d+)\tReplicas: \1\tIsr: \1\t", line), printed


@pytest.mark.smoke
def test_partitions_are_added(broker: BrokerProcess) -> None:
    topics(broker, "--create", "--topic", "grows", "--partitions", "2")
    topics(broker, "--alter", "--topic", "grows", "--partitions", "5")
    assert "PartitionCount: 5" in topics(broker, "--describe", "--topic", "grows")
    refused = topics(broker, "--alter", "--topic", "grows", "--partitions", "4", check=False)
    assert re.search(r"currently has 5 partition\(s\); 4 would not be an increase", refused), refused


def test_topic_is_listed_until_it_is_deleted(broker: BrokerProcess, made: str) -> None:
    topics(broker, "--create", "--topic", "goes")
    assert {"goes", made} <= set(topics(broker, "--list").split())
    topics(broker, "--delete", "--topic", "goes")
    listed = topics(broker, "--list").split()
    assert "goes" not in listed
    assert made in listed


def test_topic_with_given_replicas_is_created(broker: BrokerProcess, made: str) -> None:
    leader = re.search(r"Leader: (\d+)", topics(broker, "--describe", "--topic", made))
    assert leader is not None
    topics(broker, "--create", "--topic", "placed", "--replica-assignment", f"{leader[1]},{leader[1]}")
    assert "PartitionCount: 2" in topics(broker, "--describe", "--topic", "placed")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--topic", "made"], r"Topic 'made' already exists\."),
        (["--topic", "wide", "--replication-factor", "3"], r"Unable to replicate the partition 3 time"),
        (["--topic", "odd/name"], r"'\.', '_' and '-'"),
    ],
)
def test_topic_that_cannot_be_is_refused(broker: BrokerProcess, made: str, arguments: list[str], error: str) -> None:
    printed = topics(broker, "--create", *arguments, check=False)
    assert re.search(error, printed), printed


def test_filters_of_describe_find_what_they_look_for(broker: BrokerProcess, made: str) -> None:
    assert f"Topic: {made}\t" in topics(broker, "--describe", "--topics-with-overrides")
    assert topics(broker, "--describe", "--under-replicated-partitions").strip() == ""
    assert topics(broker, "--describe", "--unavailable-partitions").strip() == ""


def test_unknown_topic_is_named(broker: BrokerProcess) -> None:
    assert "'nowhere' does not exist" in topics(broker, "--describe", "--topic", "nowhere", check=False)


@pytest.mark.smoke
def test_log_dirs_are_described_with_sizes(broker: BrokerProcess, create_topic: CreateTopic) -> None:
    topic = create_topic("sized", partitions=2)
    console_produce(broker, topic, ["x" * 1000])
    printed = run_tool(f"{TOOLS}.LogDirsCommand", [*connect(broker), "--describe", "--topic-list", topic]).stdout
    described = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    (of_broker,) = described["brokers"]
    (log_dir,) = of_broker["logDirs"]
    assert (log_dir["error"], log_dir["logDir"]) == (None, str(broker.data_dir))
    sizes = {each["partition"]: each["size"] for each in log_dir["partitions"]}
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sum(sizes.values()) > 1000


@pytest.mark.smoke
def test_cluster_id_is_told(broker: BrokerProcess) -> None:
    printed = run_tool(f"{TOOLS}.ClusterTool", ["cluster-id", *connect(broker)]).stdout
    assert re.search(r"Cluster ID: [\w-]{22}\s", printed), printed


def test_endpoints_are_listed(broker: BrokerProcess) -> None:
    printed = run_tool(f"{TOOLS}.ClusterTool", ["list-endpoints", *connect(broker)]).stdout
    assert re.search(rf"127\.0\.0\.1 +{broker.port} ", printed), printed


@pytest.mark.smoke
def test_api_versions_are_read(broker: BrokerProcess) -> None:
    printed = run_tool(f"{TOOLS}.BrokerApiVersionsCommand", connect(broker)).stdout
    assert re.search(r"Produce\(0\): 0 to \d+ \[usable: \d+\]", printed), printed
    assert re.search(r"JoinGroup\(11\): \d to \d+ \[usable: \d+\]", printed), printed
