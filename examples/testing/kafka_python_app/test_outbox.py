"""The tests of that app. They share one broker: each has its own topic, and faults end with the test."""

import sqlite3
from collections.abc import Iterator

import pytest
from outbox import Outbox

from ottla.testing import OttlaBroker

pytestmark = pytest.mark.ottla(scope="session")


@pytest.fixture
def outbox(ottla_broker: OttlaBroker) -> Iterator[Outbox]:
    app = Outbox(sqlite3.connect(":memory:"), ottla_broker.bootstrap_servers)
    yield app
    app.close()


def test_rows_are_published_in_order(outbox: Outbox, ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    for value in (b"a", b"b", b"c"):
        outbox.add(ottla_topic, value)
    assert outbox.publish() == 3
    assert [record.value for record in ottla_broker.records(ottla_topic)] == [b"a", b"b", b"c"]
    assert outbox.waiting() == 0


def test_a_passing_error_is_retried(outbox: Outbox, ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    fault = ottla_broker.fail_next("produce", 2, "NOT_ENOUGH_REPLICAS")
    outbox.add(ottla_topic, b"a")
    assert outbox.publish() == 1
    assert fault.used == 2
    assert len(ottla_broker.records(ottla_topic)) == 1


def test_what_is_refused_stays_in_the_outbox(outbox: Outbox, ottla_broker: OttlaBroker, ottla_topic: str) -> None:
    outbox.add(ottla_topic, b"a")
    outbox.add(ottla_topic, b"b")
    ottla_broker.fail_next("produce", 1, "TOPIC_AUTHORIZATION_FAILED")
    assert outbox.publish() == 0
    assert outbox.waiting() == 2
    assert outbox.publish() == 2
    assert [record.value for record in ottla_broker.records(ottla_topic)] == [b"a", b"b"]
