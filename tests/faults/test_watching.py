"""A real broker watched over HTTP: counts that move, readiness in a recovery that takes long, logs for machines."""

import http.client
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from tests.processes import BrokerProcess, eventually

pytestmark = pytest.mark.process

METRICS = "ottla.metrics.listen=127.0.0.1:0"
_ADDRESS = re.compile(r"http://(127\.0\.0\.1:\d+)/metrics")


def get(broker: BrokerProcess, path: str) -> tuple[int, str]:
    address = _ADDRESS.findall(broker.log)[-1]
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def samples_of(broker: BrokerProcess) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(get(broker, "/metrics")[1])
        for sample in family.samples
    }


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path / "data", METRICS, "ottla.logging.format=json")
    yield made
    made.close()


def test_counts_move_with_what_clients_do(broker: BrokerProcess) -> None:
    broker.start()
    assert get(broker, "/healthz") == (200, "ok\n")
    assert get(broker, "/readyz") == (200, "ok\n")
    producer = Producer({"bootstrap.servers": broker.address})
    for _ in range(100):
        producer.produce("orders", b"x" * 100, partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    read = 0
    while read < 100:
        read += len(consumer.consume(100, timeout=30))
    consumer.commit(offsets=[TopicPartition("orders", 0, 100)], asynchronous=False)
    samples = samples_of(broker)
    assert samples["ottla_topic_messages_in_total", "orders"] == 100
    assert samples["ottla_topic_bytes_in_total", "orders"] > 10_000
    assert samples["ottla_topic_bytes_out_total", "orders"] >= samples["ottla_topic_bytes_in_total", "orders"]
    assert samples["ottla_request_duration_seconds_count", "Produce"] >= 1
    assert samples["ottla_requests_total", "Fetch"] >= 1
    assert samples["ottla_connections",] >= 2
    assert samples["ottla_network_received_bytes_total",] > 10_000
    assert samples["ottla_groups", "Empty"] == 1
    assert samples["ottla_group_offsets",] == 1
    assert samples["ottla_partition_log_end_offset", "0", "orders"] == 100
    consumer.close()
    assert broker.stop() == 0
    lines = [json.loads(line) for line in broker.log.splitlines()]
    assert all({"ts", "level", "logger", "message"} <= set(line) for line in lines)
    assert lines[-1]["message"] == "broker 1 stopped"


def test_a_broker_in_recovery_is_healthy_and_not_ready(broker: BrokerProcess) -> None:
    broker.start()
    broker.kill()
    # Whoever reads this waits until somebody writes: a recovery that takes as long as the test wants.
    checkpoint = broker.data_dir / "recovery-point-offset-checkpoint"
    checkpoint.unlink(missing_ok=True)
    os.mkfifo(checkpoint)
    lines_before = len(_ADDRESS.findall(broker.log))
    starting = threading.Thread(target=broker.start)
    starting.start()
    eventually(lambda: len(_ADDRESS.findall(broker.log)) > lines_before)
    eventually(lambda: get(broker, "/readyz") == (503, "the broker is RECOVERING\n"))
    assert get(broker, "/healthz") == (200, "ok\n")
    assert samples_of(broker)["ottla_broker_state",] == 2
    checkpoint.write_text("0\n0\n")
    starting.join()
    assert get(broker, "/readyz") == (200, "ok\n")
