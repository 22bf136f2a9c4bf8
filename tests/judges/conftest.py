"""A broker for the judges of groups: the same as any, but that it does not wait for more members before it starts."""

from collections.abc import Iterator

import pytest

from tests.processes import BrokerProcess

# Kafka's default of 3 s is for applications that start many members at once; here each test would pay for it.
NO_INITIAL_DELAY = "group.initial.rebalance.delay.ms=0"


@pytest.fixture(scope="module")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for a whole module; tests use topics and groups of their own names."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker") / "data", NO_INITIAL_DELAY).start()
    yield broker
    broker.close()
