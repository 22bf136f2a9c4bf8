"""Our Admin on Apache Kafka: what its own tests expect, and that Kafka's tools see what it did."""

from collections.abc import Iterator

import pytest

from interop.kafka_peer import KafkaPeer, run_tool
from ottla import Admin
from ottla.clients.topics import NewTopic
from ottla.core.types import TopicPartition
from tests.clients.test_admin_client import *  # noqa: F403

pytestmark = pytest.mark.usefixtures("kafka_tools")


@pytest.fixture(scope="module")
def address(kafka_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with KafkaPeer(tmp_path_factory.mktemp("kafka") / "data") as kafka:
        yield kafka.bootstrap


def test_kafka_s_tools_see_what_it_did(address: str) -> None:
    with Admin(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic("ours", 3, 1, (("retention.ms", "777"),))])
        admin.alter_group_offsets("ours", {TopicPartition("ours", 2): 0})
    common = ["--bootstrap-server", address]
    seen = run_tool("org.apache.kafka.tools.TopicCommand", [*common, "--describe", "--topic", "ours"]).stdout
    assert "PartitionCount: 3" in seen
    assert "retention.ms=777" in seen
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    offsets = run_tool(tool, [*common, "--describe", "--group", "ours"]).stdout
    assert ["ours", "ours", "2", "0"] in [line.split()[:4] for line in offsets.splitlines()]
