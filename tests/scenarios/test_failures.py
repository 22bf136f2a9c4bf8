"""Scenarios that fail: each client says so by its own error, in words, within the time that it was given."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import pytest

from tests.scenarios.clients import with_clients
from tests.scenarios.conftest import MakeTopic
from tests.scenarios.messages import Message, numbered
from tests.scenarios.port import NOWHERE, Client, Failure, Writing
from tests.scenarios.reading import messages_of, take

pytestmark = pytest.mark.process

PATIENCE_MS = 1_000


def fails(client: Client, failure: Failure, call: Callable[[], object]) -> None:
    """The call raises what the client declares for it, and does not keep its caller for ever."""
    outcome: Future[object] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except Exception as error:  # noqa: BLE001 - raised again below
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    kind, words = client.errors[failure]
    with pytest.raises(kind, match=words):
        outcome.result(60)


@with_clients()
def test_unknown_topic(cluster: Any, client: Client) -> None:
    with closing(client.writer(cluster.address, Writing(patience_ms=PATIENCE_MS))) as writer:
        fails(client, Failure.SEND_TO_UNKNOWN_TOPIC, lambda: writer.send("nowhere", numbered(1)))


@with_clients()
def test_record_too_large_for_its_topic_fails_alone(cluster: Any, make_topic: MakeTopic, client: Client) -> None:
    topic = make_topic()
    with closing(client.writer(cluster.address, Writing(request_max_bytes=3_000_000))) as writer:
        writer.send(topic, numbered(1))
        fails(client, Failure.SEND_TOO_LARGE, lambda: writer.send(topic, [Message(None, bytes(1_500_000))]))
        writer.send(topic, numbered(1, start=1))
    with closing(client.reader(cluster.address, topic)) as reader:
        assert messages_of(take(reader, 2)) == numbered(2)


@with_clients()
def test_unreachable_cluster(client: Client) -> None:
    def send() -> None:
        with closing(client.writer(NOWHERE, Writing(patience_ms=PATIENCE_MS))) as writer:
            writer.send("anything", numbered(1))

    def administer() -> None:
        with closing(client.administrator(NOWHERE, patience_ms=PATIENCE_MS)) as administrator:
            administrator.topics()

    fails(client, Failure.SEND_UNREACHABLE, send)
    fails(client, Failure.ADMINISTER_UNREACHABLE, administer)


@with_clients()
def test_topics_that_are_there_and_that_are_not(cluster: Any, make_topic: MakeTopic, client: Client) -> None:
    topic = make_topic()
    with closing(client.administrator(cluster.address)) as administrator:
        fails(client, Failure.CREATE_EXISTING_TOPIC, lambda: administrator.create(topic, 1, {}))
        absent = f"absent-{uuid.uuid4().hex[:8]}"
        fails(client, Failure.DELETE_UNKNOWN_TOPIC, lambda: administrator.delete(absent))
