"""A consumer through its broker's crashes, and the client loop that its user's thread runs."""

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.clients.consumer.consumer import Consumer
from ottla.clients.errors import ClientClosed
from ottla.clients.network.caller_driven import CallerDrivenNetwork
from ottla.links.settings import NetworkSettings
from tests.processes import BrokerProcess, eventually

pytestmark = pytest.mark.process

RECORDS = 4_000


def test_a_broker_killed_and_restarted_under_a_group_loses_and_repeats_nothing(tmp_path: Path) -> None:
    broker = BrokerProcess(
        tmp_path / "data", "group.initial.rebalance.delay.ms=0", "log.flush.interval.messages=1"
    ).start()
    settings = {"bootstrap.servers": broker.address, "log_level": 0}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("t", 2)])["t"].result()
    producer = Producer({**settings, "enable.idempotence": True, "reconnect.backoff.max.ms": 100})

    def produce() -> None:
        for number in range(RECORDS):
            producer.produce("t", b"%d" % number, partition=number % 2)
            producer.poll(0)
            if number % 100 == 0:
                time.sleep(0.01)
        producer.flush(30)

    seen: list[tuple[int, int, bytes]] = []
    thread = threading.Thread(target=produce)
    try:
        with Consumer(
            bootstrap_servers=broker.address,
            group_id="g",
            auto_offset_reset="earliest",
            retry_backoff_ms=20,
            reconnect_backoff_max_ms=100,
            max_poll_records=50,
            enable_auto_commit=False,
        ) as consumer:
            consumer.subscribe(["t"])
            thread.start()
            kills = [500, 1_500]
            deadline = time.monotonic() + 40

            def read() -> None:
                seen.extend((record.partition, record.offset, record.value) for record in consumer.poll(50))

            while len(seen) < RECORDS and time.monotonic() < deadline:
                read()
                if kills and len(seen) > kills[0]:
                    kills.pop(0)
                    broker.kill()
                    read()
                    broker.start()
            thread.join(30)
            consumer.commit()
            committed = consumer.committed(consumer.assignment())
    finally:
        broker.close()
    assert sorted(int(value) for _, _, value in seen) == list(range(RECORDS))
    for partition in range(2):
        offsets = [offset for topic_partition, offset, _ in seen if topic_partition == partition]
        assert offsets == list(range(RECORDS // 2))
    assert {each.offset for each in committed.values() if each is not None} == {RECORDS // 2}


def test_the_client_loop_goes_on_without_its_user_and_is_given_back() -> None:
    network = CallerDrivenNetwork("127.0.0.1:1", client_id="c", settings=NetworkSettings())
    network.start()
    ran: list[str] = []
    network.call(lambda: network.call_later(1, lambda: ran.append(threading.current_thread().name)))
    eventually(lambda: bool(ran))
    assert ran == ["ottla-c"]  # the keeper's thread
    assert network.call(lambda: network.is_in_loop)
    assert not network.is_in_loop
    ran.clear()
    network.call(lambda: network.call_later(1, lambda: ran.append(threading.current_thread().name)))
    network.run(lambda: bool(ran), 10_000)
    assert ran == [threading.current_thread().name]
    posted = threading.Event()
    network.post(posted.set)
    assert posted.wait(10)
    network.close()
    with pytest.raises(ClientClosed):
        network.call(lambda: None)
