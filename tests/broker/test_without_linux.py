"""A broker on a system without Linux's own calls, as macOS: it serves whatever it serves on Linux."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from ottla import Admin, Consumer, NewTopic, Producer
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process

RECORDS = [os.urandom(50_000) for _ in range(200)]  # 10 MB: fetches of a megabyte go by sendfile
WAIT_S = 60.0


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "used"
    monkeypatch.setenv("WITHOUT_LINUX_REPORT", str(path))
    return path


@pytest.fixture
def broker(tmp_path: Path, report: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "data", "group.initial.rebalance.delay.ms=0")
    broker.program = [sys.executable, "-m", "tests.without_linux", "ottla.cli.main"]
    broker.start()
    yield broker
    broker.close()


def read_with_ottla(address: str, *, group: str) -> list[bytes | None]:
    with Consumer(bootstrap_servers=address, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["large"])
        values: list[bytes | None] = []
        while len(values) < 2 * len(RECORDS):
            values += [record.value for record in consumer.poll(60_000)]
        consumer.commit()
    return values


def read_with_librdkafka(address: str) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "theirs", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["large"])
        values: list[bytes | None] = []
        while len(values) < 2 * len(RECORDS):
            (record,) = consumer.consume(1, timeout=WAIT_S)
            assert record.error() is None
            values.append(record.value())
    finally:
        consumer.close()
    return values


def test_records_are_produced_made_durable_and_fetched_in_groups(broker: BrokerProcess, report: Path) -> None:
    address = broker.address
    with Admin(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic("large", 1, configs=(("flush.messages", "1"),))])
    with Producer(bootstrap_servers=address, acks="all") as producer:
        for value in RECORDS:
            producer.send("large", value)
    theirs = confluent_kafka.Producer({"bootstrap.servers": address, "acks": "all"})
    for value in RECORDS:
        theirs.produce("large", value)
    assert theirs.flush(WAIT_S) == 0

    assert read_with_ottla(address, group="first") == RECORDS + RECORDS
    assert read_with_librdkafka(address) == RECORDS + RECORDS

    broker.restart()
    assert read_with_ottla(address, group="second") == RECORDS + RECORDS
    assert broker.stop() == 0
    assert "Traceback" not in broker.log
    used = report.read_text().splitlines()
    assert used == ["10240 open files", "F_FULLFSYNC", "sendfile"]
