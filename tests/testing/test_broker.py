"""A real broker behind its proxy, seen by real clients."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from ottla.testing import BrokerDied, BrokerStartFailed, OttlaBroker, WaitTimedOut
from ottla.testing.waiting import wait_until
from tests.processes import is_running

pytestmark = pytest.mark.process


class Sender:
    """A confluent-kafka producer that remembers what became of its records."""

    def __init__(self, broker: OttlaBroker, **config: object) -> None:
        self.outcomes: list[tuple[str | None, int | None]] = []
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "client.id": "sender",
                "retry.backoff.ms": 10,
                "reconnect.backoff.ms": 10,
                "logger": None,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )

    def send(self, topic: str, *values: str) -> None:
        for value in values:
            self._producer.produce(topic, value.encode(), on_delivery=self._delivered)

    def flush(self) -> int:
        return self._producer.flush(20)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.outcomes.append((None if error is None else error.name(), message.offset()))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBroker]:
    with OttlaBroker(tmp_path_factory.mktemp("shared") / "data") as broker:
        yield broker


@pytest.fixture
def broker(shared: OttlaBroker) -> Iterator[OttlaBroker]:
    yield shared
    shared.heal()
    shared.forget_requests()


def values_of(broker: OttlaBroker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def test_records_that_a_test_stores_can_be_read(broker: OttlaBroker) -> None:
    topic = broker.create_topic(partitions=3, config={"retention.ms": 1000_000_000})
    assert topic in broker.topics()
    broker.produce(topic, [("key", "a"), (None, None), b"c"], partition=2)
    assert [(r.partition, r.offset, r.key, r.value) for r in broker.records(topic)] == [
        (2, 0, b"key", b"a"),
        (2, 1, None, None),
        (2, 2, None, b"c"),
    ]
    broker.delete_topic(topic)
    assert topic not in broker.topics()


def test_clients_go_through_the_proxy(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    sender = Sender(broker)
    sender.send(topic, "a")
    assert sender.flush() == 0
    assert {"PRODUCE", "METADATA"} <= {request.api.name for request in broker.requests(client_id="sender")}
    broker.wait_for_requests("produce", 1, client_id="sender")
    assert broker.requests("produce", client_id="other") == []


def test_a_failed_produce_is_retried_and_stored_once(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    fault = broker.fail_next("produce", 2, "NOT_LEADER_OR_FOLLOWER")
    sender = Sender(broker)
    sender.send(topic, "a")
    assert sender.flush() == 0
    assert (sender.outcomes, fault.used) == ([(None, 0)], 2)
    assert values_of(broker, topic) == [b"a"]


def test_an_error_that_is_final_reaches_the_application(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    broker.fail_next("produce", 1, "TOPIC_AUTHORIZATION_FAILED")
    sender = Sender(broker)
    sender.send(topic, "a")
    assert sender.flush() == 0
    assert sender.outcomes[0][0] == "TOPIC_AUTHORIZATION_FAILED"
    assert values_of(broker, topic) == []


def test_what_was_perhaps_applied_is_stored_once_with_idempotence(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    timed_out = broker.fail_next("produce", 1, "REQUEST_TIMED_OUT", applied=True)
    cut = broker.cut_next("produce", when="after")
    sender = Sender(broker, enable_idempotence=True)
    sender.send(topic, "a")
    assert sender.flush() == 0
    assert (timed_out.used, cut.used) == (1, 1)
    assert values_of(broker, topic) == [b"a"]


def test_and_twice_without(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    broker.fail_next("produce", 1, "REQUEST_TIMED_OUT", applied=True)
    sender = Sender(broker)
    sender.send(topic, "a")
    assert sender.flush() == 0
    assert values_of(broker, topic) == [b"a", b"a"]


def test_held_requests_wait_for_their_release(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    sender = Sender(broker)
    with broker.hold("produce") as hold:
        sender.send(topic, "a")
        sender._producer.poll(0)
        hold.wait_until_used()
        assert values_of(broker, topic) == []
    assert sender.flush() == 0
    assert values_of(broker, topic) == [b"a"]


def test_a_delay_is_in_force_only_in_its_block(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    sender = Sender(broker, request_timeout_ms=1000)
    with broker.delay(50, api="produce") as delay:
        sender.send(topic, "a")
        assert sender.flush() == 0
        assert delay.used == 1
    sender.send(topic, "b")
    assert sender.flush() == 0
    assert delay.used == 1


def test_a_kill_is_survived_at_the_same_address(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    sender = Sender(broker)
    sender.send(topic, "a")
    assert sender.flush() == 0
    address = broker.bootstrap_servers
    broker.kill()
    assert not broker.is_running
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.port))
    sender.send(topic, "b")
    broker.start()
    assert sender.flush() == 0
    assert broker.bootstrap_servers == address
    assert values_of(broker, topic) == [b"a", b"b"]


def test_a_stop_is_clean_and_a_restart_may_change_the_config(broker: OttlaBroker) -> None:
    assert broker.stop() == 0
    assert broker.stop() == 0
    broker.restart(config={"num.partitions": 3})
    assert broker.config["num.partitions"] == "3"
    assert broker.is_running


def test_cut_connections_come_back(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    sender = Sender(broker)
    sender.send(topic, "a")
    assert sender.flush() == 0
    assert broker.cut_connections(client_id="nobody") == 0
    assert broker.cut_connections(client_id="sender") >= 1
    sender.send(topic, "b")
    assert sender.flush() == 0
    assert values_of(broker, topic) == [b"a", b"b"]


def test_groups_and_commits_can_be_waited_for(broker: OttlaBroker) -> None:
    topic = broker.create_topic(partitions=2)
    broker.produce(topic, ["a", "b", "c"], partition=1)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": topic,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        assert len([consumer.poll(10) for _ in range(3)]) == 3
        (member,) = broker.wait_for_group(topic, members=1).members
        assert (member.client_id, len(member.assignment)) == ("reader", 2)
        with pytest.raises(
            WaitTimedOut, match=r"has 2 members; at the end it was Stable with 1 members: reader with 2"
        ):
            broker.wait_for_group(topic, members=2, timeout_ms=1)
        consumer.commit(asynchronous=False)
        assert broker.wait_for_commit(topic, topic, 3, partition=1) == 3
        with pytest.raises(WaitTimedOut, match=rf"committed 4 in {topic}-1; at the end the group had committed .*: 3"):
            broker.wait_for_commit(topic, topic, 4, partition=1, timeout_ms=1)
    finally:
        consumer.close()
    assert broker.wait_for_group(topic, state="empty", members=0).members == ()
    assert broker.group("nobody") is None


def test_records_can_be_waited_for_before_their_topic_exists(broker: OttlaBroker) -> None:
    timer = threading.Timer(0.05, lambda: broker.produce(broker.create_topic("later"), ["a", "b"]))
    timer.start()
    found = broker.wait_for_records("later", 1, where=lambda record: record.value == b"b")
    assert [record.offset for record in found] == [1]
    with pytest.raises(WaitTimedOut, match=r"later holds 3 records; at the end there were 2, by partition \{0: 2\}"):
        broker.wait_for_records("later", 3, timeout_ms=50)
    with pytest.raises(WaitTimedOut, match=r"could not be read: .*UNKNOWN_TOPIC_OR_PARTITION"):
        broker.wait_for_records("never", 1, timeout_ms=1)


def test_asynchronous_tests_wait_without_stopping_their_loop(broker: OttlaBroker) -> None:
    async def main() -> None:
        topic = await broker.aio.create_topic()
        turns = 0

        async def later() -> bool:
            nonlocal turns
            turns += 1
            return turns > 2

        waiting = asyncio.ensure_future(broker.aio.wait_for_records(topic, 1))
        assert await broker.aio.wait_until(later)
        assert await broker.aio.wait_until(lambda: turns)
        await asyncio.to_thread(broker.produce, topic, ["a"])
        assert [record.value for record in await waiting] == [b"a"]
        assert len(await broker.aio.records(topic)) == 1
        with pytest.raises(WaitTimedOut, match="until pigs fly; at the end it gave False"):
            await broker.aio.wait_until(lambda: False, what="pigs fly", timeout_ms=1)

    asyncio.run(main())


def test_a_paused_broker_is_there_but_silent(broker: OttlaBroker) -> None:
    topic = broker.create_topic()
    sender = Sender(broker)
    broker.pause()
    sender.send(topic, "a")
    assert sender._producer.flush(0.1) == 1
    # Which of two clocks of 200 ms ends it, that of the connection or that of the request, is a matter of chance.
    with pytest.raises(WaitTimedOut, match=r"could not be described: .*not reached"):
        broker.wait_for_group("any", timeout_ms=1)
    broker.resume()
    assert sender.flush() == 0


def test_a_direct_broker_has_no_faults_but_keeps_its_address(tmp_path: Path) -> None:
    with OttlaBroker(tmp_path / "data", direct=True, metrics=True) as broker:
        with pytest.raises(RuntimeError, match="direct=True"):
            broker.fail_next("produce")
        with urllib.request.urlopen(broker.metrics_url, timeout=10) as answer:
            assert b"ottla" in answer.read()
        address = broker.bootstrap_servers
        broker.restart(kill=True)
        assert broker.bootstrap_servers == address
        assert broker.topics() == []


def test_a_wrong_config_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BrokerStartFailed, match=r"log\.segment\.bites.*log\.segment\.bytes"):
        OttlaBroker(tmp_path / "data", config={"log.segment.bites": 1})
    with pytest.raises(ValueError, match=r"listeners: this is chosen by OttlaBroker"):
        OttlaBroker(tmp_path / "data", config={"listeners": "PLAINTEXT://:0"})


def test_a_broker_that_dies_by_itself_is_told(tmp_path: Path) -> None:
    with OttlaBroker(tmp_path / "data") as broker:
        os.kill(broker.pid, 9)
        broker.wait_until(lambda: not broker.is_running)
        with pytest.raises(BrokerDied, match="ended by itself with code -9"):
            broker.check_alive()
        with pytest.raises(RuntimeError, match="is not running"):
            broker.metrics_url  # noqa: B018


def test_a_broker_ends_with_the_process_of_its_test(tmp_path: Path) -> None:
    script = f"""
import os, time
from ottla.testing import OttlaBroker
broker = OttlaBroker({str(tmp_path / "data")!r})
print(broker.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    child = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    pid = int(child.stdout)
    wait_until(lambda: not is_running(pid), what=f"process {pid} is gone")
