"""An illegal topic name never reaches the file system."""

from pathlib import Path

import pytest

from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.processes import BrokerProcess
from tests.raw_wire import RawClient, batch_of

pytestmark = pytest.mark.process

INVALID_TOPIC = 17
UNKNOWN_TOPIC_OR_PARTITION = 3

BAD_NAMES = [
    "..",
    ".",
    "",
    "a/b",
    "../escaped",
    "/etc/passwd",
    "nul\x00l",
    "x" * 250,
    "sp ace",
    "naïve",
    "a\nb",
    "a\\b",
]


def files_of(broker: BrokerProcess) -> set[Path]:
    """Every path in the data directory and beside it."""
    return set(broker.data_dir.parent.rglob("*"))


@pytest.mark.parametrize("name", BAD_NAMES)
def test_illegal_name_is_refused_and_touches_no_file(shared_broker: BrokerProcess, name: str) -> None:
    before = files_of(shared_broker)
    with RawClient(shared_broker.port) as client:
        assert client.create_topic(name) == INVALID_TOPIC
        for version in (1, 4, 9, 12):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            answer = client.ask(request, version, MetadataResponse)
            assert [topic.error_code for topic in answer.topics] == [INVALID_TOPIC]
        assert client.produce(name, batch_of(b"x")).error_code in (INVALID_TOPIC, UNKNOWN_TOPIC_OR_PARTITION)
        assert client.fetch(name, 0).error_code in (INVALID_TOPIC, UNKNOWN_TOPIC_OR_PARTITION)
        assert client.list_offset(name, -1).error_code in (INVALID_TOPIC, UNKNOWN_TOPIC_OR_PARTITION)
    assert files_of(shared_broker) == before


@pytest.mark.parametrize("name", ["x" * 249, "A.b_c-9", "...", "-", "_", "0"])
def test_legal_name_at_the_edge_is_taken(shared_broker: BrokerProcess, name: str) -> None:
    with RawClient(shared_broker.port) as client:
        assert client.create_topic(name) == 0
        assert client.produce(name, batch_of(b"value")).error_code == 0
        assert [record.value for record in client.read_all(name)] == [b"value"]
    assert shared_broker.partition_dir(name).is_dir()


def test_names_that_differ_only_in_dot_and_underscore_collide(shared_broker: BrokerProcess) -> None:
    with RawClient(shared_broker.port) as client:
        assert client.create_topic("one.two") == 0
        assert client.create_topic("one_two") == INVALID_TOPIC
