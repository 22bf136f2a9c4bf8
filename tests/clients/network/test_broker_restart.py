"""The network of a client on a real broker that is killed and comes back."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.clients.errors import ClientClosed, ConnectionFailed
from ottla.clients.network.metadata import Metadata
from ottla.core.types import TopicPartition
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tests.clients.network.test_carriers import Carrier, MakeCarrier, carrier  # noqa: F401
from tests.processes import BrokerProcess

ATTEMPTS_MAX = 100

pytestmark = pytest.mark.process


def ask(each: Carrier, broker_id: int) -> Any:
    message = DescribeGroupsRequest(groups=["g"])
    return each.ask(lambda done: each.network.request(broker_id, message, done))


def test_requests_fail_while_a_broker_is_gone_and_go_on_when_it_is_back(
    start_broker: Callable[..., BrokerProcess],
    carrier: MakeCarrier,  # noqa: F811
) -> None:
    broker = start_broker()
    each = carrier(broker.address, reconnect_backoff_max_ms=100)
    metadata = each.call(
        lambda: Metadata(each.network, max_age_ms=300_000, backoff_ms=20, allow_auto_create=True)  # type: ignore[arg-type]
    )
    assert each.ask(lambda done: metadata.wait_for_topic("orders", 10_000, done)) == 1
    leader_id = metadata.leader_of(TopicPartition("orders", 0))
    assert isinstance(ask(each, leader_id), DescribeGroupsResponse)
    broker.kill()
    for _ in range(5):
        assert isinstance(ask(each, leader_id), ConnectionFailed)
    broker.start()
    # Each failure costs the wait before the next connection, so this ends in seconds.
    answers = (ask(each, leader_id) for _ in range(ATTEMPTS_MAX))
    assert any(isinstance(answer, DescribeGroupsResponse) for answer in answers)
    version = metadata.version
    each.call(metadata.request_update)
    assert each.ask(lambda done: metadata.on_change.append(lambda: done(metadata.version))) > version
    assert metadata.leader_of(TopicPartition("orders", 0)) == leader_id
    each.call(lambda: metadata.close(ClientClosed("the client is closed")))
