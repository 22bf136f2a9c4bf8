"""The scenarios of tests/scenarios on Apache Kafka: our clients are judged, the others show that the judge is right."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_peer import KafkaPeer
from ottla import Admin
from tests.scenarios.conftest import OVERRIDES, group, make_topic  # noqa: F401 - fixtures
from tests.scenarios.test_administration import *  # noqa: F403
from tests.scenarios.test_failures import *  # noqa: F403
from tests.scenarios.test_groups import *  # noqa: F403
from tests.scenarios.test_mixed_groups import *  # noqa: F403
from tests.scenarios.test_positions import *  # noqa: F403
from tests.scenarios.test_records import *  # noqa: F403

pytestmark = pytest.mark.usefixtures("kafka_tools")


class KafkaCluster:
    """Apache Kafka as the scenarios see it."""

    def __init__(self, peer: KafkaPeer) -> None:
        self._peer = peer
        self.address = peer.bootstrap

    def partition_dir(self, topic: str, partition: int) -> Path:
        return self._peer.partition_dir(topic, partition)


@pytest.fixture(scope="module")
def cluster(kafka_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaPeer(tmp_path_factory.mktemp("kafka") / "data", overrides=OVERRIDES) as peer:
        with Admin(bootstrap_servers=peer.bootstrap) as admin:
            admin.list_group_offsets("the-first")  # the topic of offsets is made for it, and not every client waits
        yield KafkaCluster(peer)


@pytest.fixture
def segment_bytes() -> str:
    """The least that Kafka allows."""
    return "1048576"
