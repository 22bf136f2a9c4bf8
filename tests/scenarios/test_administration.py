"""Scenarios of administration: a topic from its creation to its end."""

import uuid
from contextlib import closing
from typing import Any

import pytest

from tests.processes import eventually
from tests.scenarios.clients import with_clients
from tests.scenarios.port import Client

pytestmark = pytest.mark.process


@with_clients()
def test_topic_is_created_configured_grown_and_deleted(cluster: Any, client: Client) -> None:
    topic = f"administered-{uuid.uuid4().hex[:8]}"
    # What was done is seen when the broker that is asked has heard of it, which is a moment later on some clusters.
    with closing(client.administrator(cluster.address)) as administrator:
        administrator.create(topic, 3, {"retention.ms": "12345"})
        eventually(lambda: topic in administrator.topics())
        assert administrator.partition_count(topic) == 3
        assert administrator.config(topic, "retention.ms") == "12345"
        assert administrator.config(topic, "cleanup.policy") == "delete"
        administrator.set_config(topic, "retention.ms", "54321")
        eventually(lambda: administrator.config(topic, "retention.ms") == "54321")
        administrator.add_partitions(topic, 5)
        eventually(lambda: administrator.partition_count(topic) == 5)
        administrator.delete(topic)
        eventually(lambda: topic not in administrator.topics())
