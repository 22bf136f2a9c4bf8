"""The view of a cluster: when it is asked for, what it takes from an answer, and what it does without one."""

import pytest

from ottla.clients.errors import BrokerError, ClientClosed, ClientError, TimedOut
from ottla.clients.network.metadata import Metadata
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.protocol.apis import ApiKey
from tests.clients.fake_network import FakeNetwork

ORDERS_1 = TopicPartition("orders", 1)


@pytest.fixture
def network() -> FakeNetwork:
    return FakeNetwork(brokers=3, topics={"orders": 3, "payments": 1})


@pytest.fixture
def metadata(network: FakeNetwork) -> Metadata:
    return Metadata(network, max_age_ms=300_000, backoff_ms=100, backoff_max_ms=1_000)


def asked(network: FakeNetwork) -> list[list[str] | None]:
    topics = [sent.message.topics for sent in network.of(ApiKey.METADATA)]
    return [None if names is None else [topic.name for topic in names] for names in topics]


def test_nothing_is_asked_before_a_topic_is_wanted(network: FakeNetwork, metadata: Metadata) -> None:
    network.advance(1_000_000)
    assert network.sent == []


def test_a_new_topic_is_asked_for_at_once(network: FakeNetwork, metadata: Metadata) -> None:
    metadata.add_topic("orders")
    network.run()
    assert metadata.partition_count("orders") == 3
    assert metadata.leader_of(ORDERS_1) == 2
    assert metadata.leader_epoch_of(ORDERS_1) == 0
    assert metadata.name_of(metadata.topic_id_of("orders")) == "orders"
    metadata.add_topic("payments")
    network.run()
    assert asked(network) == [["orders"], ["orders", "payments"]]


def test_all_topics_can_be_in_view(network: FakeNetwork, metadata: Metadata) -> None:
    metadata.set_topics(None)
    network.run()
    assert sorted(metadata.names()) == ["orders", "payments"]
    assert asked(network) == [None]


def test_topics_that_are_no_longer_wanted_leave_the_view(network: FakeNetwork, metadata: Metadata) -> None:
    metadata.set_topics(["orders", "payments"])
    network.run()
    metadata.set_topics(["payments"])
    assert metadata.names() == ["payments"]
    assert metadata.name_of(network.topic_ids["orders"]) is None


def test_it_is_refreshed_when_it_is_old(network: FakeNetwork, metadata: Metadata) -> None:
    metadata.add_topic("orders")
    network.advance(299_999)
    assert len(network.sent) == 1
    network.move_leader("orders", 1, 3)
    network.advance(1)
    assert metadata.leader_of(ORDERS_1) == 3


def test_updates_on_request_keep_a_distance(network: FakeNetwork, metadata: Metadata) -> None:
    metadata.add_topic("orders")
    network.run()
    for _ in range(50):
        metadata.request_update()
        network.advance(10)
    assert 5 <= len(network.sent) <= 7


def test_a_wish_while_a_request_is_under_way_makes_another_one(network: FakeNetwork, metadata: Metadata) -> None:
    metadata.add_topic("orders")
    network.advance(0)
    network.sent.clear()
    metadata.request_update()
    network.advance(100)
    metadata.add_topic("payments")
    network.advance(200)
    assert metadata.partition_count("payments") == 1


def test_failures_are_retried_with_growing_waits(network: FakeNetwork, metadata: Metadata) -> None:
    network.down = {1, 2, 3}
    metadata.add_topic("orders")
    network.advance(60_000)
    assert 50 <= len(network.sent) <= 90
    assert isinstance(metadata.failure, ClientError)
    network.down.clear()
    network.advance(1_300)
    assert metadata.partition_count("orders") == 3
    assert metadata.failure is None


def test_a_lost_connection_makes_it_ask_again(network: FakeNetwork, metadata: Metadata) -> None:
    metadata.add_topic("orders")
    network.advance(200)
    network.move_leader("orders", 1, 3)
    network.cut(2)
    network.run()
    assert metadata.leader_of(ORDERS_1) == 3


def test_an_older_leader_epoch_is_not_believed(network: FakeNetwork, metadata: Metadata) -> None:
    network.leader_epochs["orders", 1] = 7
    metadata.add_topic("orders")
    network.advance(200)
    network.leader_epochs["orders", 1] = 6
    network.topics["orders"][1] = 3
    metadata.request_update()
    network.run()
    assert (metadata.leader_of(ORDERS_1), metadata.leader_epoch_of(ORDERS_1)) == (2, 7)


def test_a_topic_made_anew_starts_with_its_own_epochs(network: FakeNetwork, metadata: Metadata) -> None:
    network.leader_epochs["orders", 1] = 7
    metadata.add_topic("orders")
    network.advance(200)
    network.leader_epochs["orders", 1] = 0
    network.topics["orders"][1] = 3
    network.topic_ids["orders"] = b"another orders.."
    metadata.request_update()
    network.run()
    assert (metadata.leader_of(ORDERS_1), metadata.leader_epoch_of(ORDERS_1)) == (3, 0)


def test_a_leader_named_by_an_answer_is_taken_when_newer(network: FakeNetwork, metadata: Metadata) -> None:
    metadata.add_topic("orders")
    network.run()
    assert metadata.set_leader(ORDERS_1, 3, 1)
    assert not metadata.set_leader(ORDERS_1, 1, 1)
    assert not metadata.set_leader(ORDERS_1, 99, 5)
    assert metadata.leader_of(ORDERS_1) == 3


def test_a_leader_that_is_no_known_broker_is_none(network: FakeNetwork, metadata: Metadata) -> None:
    network.topics["orders"][1] = 77
    metadata.add_topic("orders")
    network.run()
    assert metadata.leader_of(ORDERS_1) == -1


def test_partitions_without_a_leader_are_asked_for_again(network: FakeNetwork, metadata: Metadata) -> None:
    network.topics["orders"][1] = -1
    metadata.add_topic("orders")
    network.run()
    network.move_leader("orders", 1, 2)
    network.advance(200)
    assert metadata.leader_of(ORDERS_1) == 2


def test_who_waits_for_a_topic_is_told_when_it_appears(network: FakeNetwork, metadata: Metadata) -> None:
    outcomes: list[int | ClientError] = []
    metadata.wait_for_topic("later", 10_000, outcomes.append)
    network.advance(3_000)
    assert outcomes == []
    network.add_topic("later", 4)
    network.advance(1_300)
    assert outcomes == [4]
    metadata.wait_for_topic("later", 10_000, outcomes.append)
    assert outcomes == [4]
    network.run()
    assert outcomes == [4, 4]


def test_who_waits_in_vain_is_told_why(network: FakeNetwork, metadata: Metadata) -> None:
    outcomes: list[int | ClientError] = []
    metadata.wait_for_topic("never", 2_000, outcomes.append)
    network.advance(2_000)
    assert isinstance(outcomes[0], TimedOut)
    assert str(outcomes[0]) == "topic never: not known after 2000 ms: the cluster says UNKNOWN_TOPIC_OR_PARTITION"
    network.down = {1, 2, 3}
    metadata.wait_for_topic("never", 2_000, outcomes.append)
    network.advance(2_000)
    assert "Connection refused" in str(outcomes[1])


def test_an_error_that_does_not_pass_ends_the_wait(network: FakeNetwork, metadata: Metadata) -> None:
    outcomes: list[int | ClientError] = []
    network.topic_errors["bad name"] = ErrorCode.INVALID_TOPIC_EXCEPTION
    metadata.wait_for_topic("bad name", 2_000, outcomes.append)
    network.run()
    assert isinstance(outcomes[0], BrokerError)
    assert metadata.error_of("bad name") == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_age_of_nothing_does_not_make_it_ask_without_end(network: FakeNetwork) -> None:
    metadata = Metadata(network, max_age_ms=0, backoff_ms=100)
    metadata.add_topic("orders")
    network.advance(1_000)
    assert 9 <= len(network.sent) <= 12


def test_listeners_hear_of_every_answer(network: FakeNetwork, metadata: Metadata) -> None:
    versions: list[int] = []
    metadata.on_change.append(lambda: versions.append(metadata.version))
    metadata.add_topic("orders")
    network.advance(300_100)
    assert versions == [1, 2]


def test_a_closed_one_asks_nothing_more(network: FakeNetwork, metadata: Metadata) -> None:
    metadata.add_topic("orders")
    network.run()
    metadata.close(ClientClosed("the client is closed"))
    metadata.request_update()
    network.advance(1_000_000)
    assert len(network.sent) == 1


def test_who_waits_for_a_topic_is_told_that_the_client_is_closed(network: FakeNetwork, metadata: Metadata) -> None:
    outcomes: list[object] = []
    network.serve(ApiKey.METADATA, lambda sent: None)
    metadata.wait_for_topic("unknown", 60_000, outcomes.append)
    network.run()
    closed = ClientClosed("closed")
    metadata.close(closed)
    assert outcomes == [closed]
