"""A client and a topic of the test's own, on the broker of its module."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.processes import BrokerProcess
from tests.raw_wire import RawClient, batch_of

_NUMBERS = count()


@pytest.fixture
def client(shared_broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(shared_broker.port) as client:
        yield client


@pytest.fixture
def topic(client: RawClient) -> str:
    """A topic of the test's own, with one record in it."""
    name = f"topic-{next(_NUMBERS)}"
    assert client.create_topic(name) == 0
    assert client.produce(name, batch_of(b"before")).error_code == 0
    return name
