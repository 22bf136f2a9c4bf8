"""The producer behind a wire that breaks, delays and answers with errors, with a real broker at its other end."""

from collections.abc import Callable

import pytest

from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.producer import Producer
from ottla.testing.broker import OttlaBroker

pytestmark = pytest.mark.process

COUNT = 3_000


def cut_all(broker: OttlaBroker) -> None:
    broker.cut_connections()


def lose_requests(broker: OttlaBroker) -> None:
    broker.cut_next("Produce", 2)


def lose_answers(broker: OttlaBroker) -> None:
    broker.cut_next("Produce", 2, when="after")


def refuse(broker: OttlaBroker) -> None:
    broker.fail_next("Produce", 3, "NOT_LEADER_OR_FOLLOWER")


def refuse_what_was_done(broker: OttlaBroker) -> None:
    broker.fail_next("Produce", 3, "REQUEST_TIMED_OUT", applied=True)


def stale_metadata(broker: OttlaBroker) -> None:
    broker.fail_next("Metadata", 2, "LEADER_NOT_AVAILABLE")
    broker.cut_connections()


def delay(broker: OttlaBroker) -> None:
    broker.delay(20, "Produce")


@pytest.mark.parametrize(
    "fault", [cut_all, lose_requests, lose_answers, refuse, refuse_what_was_done, stale_metadata, delay]
)
def test_nothing_is_lost_or_twice_or_out_of_order(
    ottla_broker: OttlaBroker, fault: Callable[[OttlaBroker], None]
) -> None:
    ottla_broker.create_topic("orders")
    handles: list[SendHandle] = []
    with Producer(
        bootstrap_servers=ottla_broker.bootstrap_servers, batch_size=2_000, linger_ms=1, retry_backoff_ms=10
    ) as producer:
        producer.send("orders", b"first").result(10)
        for number in range(COUNT):
            if number % 1_000 == 500:
                fault(ottla_broker)
            handles.append(producer.send("orders", b"%d" % number))
            if number % 1_000 == 999:
                handles[-1].result(20)
        producer.flush(20_000)
    assert [handle.result(0).offset for handle in handles] == list(range(1, COUNT + 1))
    stored = [record.value for record in ottla_broker.records("orders")]
    assert stored == [b"first", *(b"%d" % number for number in range(COUNT))]
