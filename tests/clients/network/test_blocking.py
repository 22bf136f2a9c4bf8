"""A client loop that only its caller runs, on a real broker and on none."""

from collections.abc import Callable, Iterator

import pytest

from ottla.clients.errors import ClientClosed, ConnectionFailed, UnsupportedByBroker
from ottla.clients.network.blocking import BlockingNetwork
from ottla.clients.network.port import ANY_BROKER
from ottla.links.settings import NetworkSettings
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.processes import BrokerProcess

MakeNetwork = Callable[[str], BlockingNetwork]


@pytest.fixture
def network_to() -> Iterator[MakeNetwork]:
    opened: list[BlockingNetwork] = []

    def make(bootstrap: str) -> BlockingNetwork:
        opened.append(BlockingNetwork(bootstrap, client_id="test", settings=NetworkSettings()))
        return opened[-1]

    yield make
    for network in opened:
        network.close()


@pytest.mark.process
def test_questions_are_answered_one_after_the_other(shared_broker: BrokerProcess, network_to: MakeNetwork) -> None:
    network = network_to(shared_broker.address)
    for _ in range(3):
        answer = network.ask(ANY_BROKER, MetadataRequest(topics=[]))
        assert isinstance(answer, MetadataResponse)
        assert len(answer.brokers) == 1
    with pytest.raises(UnsupportedByBroker, match="METADATA"):
        network.ask(ANY_BROKER, MetadataRequest(topics=[]), versions=(90, 99))


@pytest.mark.process
def test_a_connection_that_ended_between_two_questions_is_made_anew(
    start_broker: Callable[..., BrokerProcess], network_to: MakeNetwork
) -> None:
    broker = start_broker()
    network = network_to(broker.address)
    network.ask(ANY_BROKER, MetadataRequest(topics=[]))
    broker.kill()
    broker.start()
    assert isinstance(network.ask(ANY_BROKER, MetadataRequest(topics=[])), MetadataResponse)


def test_a_broker_that_is_not_there_is_told_at_once_and_so_is_a_closed_client(network_to: MakeNetwork) -> None:
    network = network_to("127.0.0.1:1")
    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1: not reached"):
        network.ask(ANY_BROKER, MetadataRequest(topics=[]))
    network.close()
    with pytest.raises(ClientClosed):
        network.ask(ANY_BROKER, MetadataRequest(topics=[]))
