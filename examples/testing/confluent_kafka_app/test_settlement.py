"""The tests of that app: every one has a real broker of its own, ready in a fraction of a second."""

import json
import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException
from settlement import Settlement

from ottla.testing import OttlaBroker

ORDERS = [json.dumps({"id": number, "cents": 100 * number}) for number in range(1, 4)]


@pytest.fixture
def start_settlement(ottla_broker: OttlaBroker) -> Iterator[Callable[[], threading.Thread]]:
    """Runs the app on a thread; it is stopped when the test ends."""
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def start() -> threading.Thread:
        app = Settlement(ottla_broker.bootstrap_servers, orders="orders", receipts="receipts")
        threads.append(threading.Thread(target=app.run, args=(stopping.is_set,)))
        threads[-1].start()
        return threads[-1]

    ottla_broker.create_topic("orders")
    ottla_broker.create_topic("receipts")
    yield start
    stopping.set()
    for thread in threads:
        thread.join()


def test_every_order_gets_a_receipt(
    ottla_broker: OttlaBroker, start_settlement: Callable[[], threading.Thread]
) -> None:
    ottla_broker.produce("orders", ORDERS)
    start_settlement()
    receipts = ottla_broker.wait_for_records("receipts", 3)
    assert [json.loads(receipt.value or b"")["cents"] for receipt in receipts] == [100, 200, 300]
    ottla_broker.wait_for_commit("settlement", "orders", 3)


def test_a_timeout_after_the_write_gives_no_second_receipt(
    ottla_broker: OttlaBroker, start_settlement: Callable[[], threading.Thread]
) -> None:
    # The broker stores the receipt, but the app gets an error that says it may not be stored.
    ottla_broker.fail_next("produce", 1, "REQUEST_TIMED_OUT", applied=True, client_id="settlement")
    ottla_broker.produce("orders", ORDERS)
    start_settlement()
    ottla_broker.wait_for_commit("settlement", "orders", 3)
    assert [receipt.key for receipt in ottla_broker.records("receipts")] == [b"1", b"2", b"3"]


def test_a_crash_of_the_broker_is_survived(
    ottla_broker: OttlaBroker, start_settlement: Callable[[], threading.Thread]
) -> None:
    start_settlement()
    ottla_broker.wait_for_group("settlement", members=1)
    ottla_broker.restart(kill=True)
    ottla_broker.produce("orders", ORDERS)
    receipts = ottla_broker.wait_for_records("receipts", 3, timeout_ms=30_000)
    assert {receipt.key for receipt in receipts} == {b"1", b"2", b"3"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_order_is_not_committed_when_its_receipt_is_refused(
    ottla_broker: OttlaBroker, start_settlement: Callable[[], threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_by: list[type[BaseException] | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: ended_by.append(arguments.exc_type))
    ottla_broker.fail_next("produce", 1, "TOPIC_AUTHORIZATION_FAILED", client_id="settlement")
    ottla_broker.produce("orders", ORDERS)
    start_settlement().join(30)
    assert ended_by == [KafkaException]
    assert ottla_broker.committed("settlement") == {}
