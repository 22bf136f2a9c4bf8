"""The cluster that scenarios run on: our broker here. interop/ runs the same scenarios on Apache Kafka."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import Admin, NewTopic
from tests.processes import BrokerProcess

# Members are not waited for, and a topic that is not there stays so.
OVERRIDES = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}
MakeTopic = Callable[..., str]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One for all scenarios, which use topics and groups of their own names."""
    overrides = [f"{key}={value}" for key, value in OVERRIDES.items()]
    broker = BrokerProcess(tmp_path_factory.mktemp("scenarios") / "data", *overrides).start()
    yield broker
    log = broker.log
    broker.close()
    assert "Traceback" not in log, log


@pytest.fixture
def segment_bytes() -> str:
    """Small, for logs of several segments; Apache Kafka allows none so small."""
    return "20000"


@pytest.fixture
def make_topic(cluster: Any) -> Iterator[MakeTopic]:
    """`make_topic(partitions=1, **configs)`: its name, once it can be written to; configs with `_` for `.`."""
    with Admin(bootstrap_servers=cluster.address) as admin:

        def make(partitions: int = 1, **configs: str) -> str:
            name = f"scenario-{uuid.uuid4().hex[:8]}"
            named = tuple((key.replace("_", "."), value) for key, value in configs.items())
            admin.create_topics([NewTopic(name, partitions, 1, named)])
            return name

        yield make


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"
