"""Alerts of the store in a line each, once; the lag of groups from what they have committed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ottla import Producer
from ottla.clients.admin import Admin, NewTopic
from ottla.core.types import TopicPartition
from ottla.pipeline.demo.observing import Books, Observer
from ottla.pipeline.stores.port import Batch
from ottla.pipeline.tables import BALANCE, DEVICE_ALERT, INVITE_ALERT
from tests.processes import BrokerProcess

BATCH = Batch("some_job", "run", 0)
DEVICE = {
    "alert_id": "a1",
    "device_id": "d1",
    "rule": "ping_pong",
    "accounts": json.dumps(["u1", "u2"]),
    "switches": 5,
    "window_start_ms": 0,
    "window_end_ms": 240_000,
    "detected_ms": 1,
}
INVITE = {
    "alert_id": "a2",
    "inviter_id": "u9",
    "score": 0.7,
    "rules": json.dumps(
        {"burst": {"weight": 0.2, "why": "7 invites in 300 s"}, "idle": {"weight": 0.5, "why": "6 of 7 idle"}}
    ),
    "invitees": "[]",
    "first_event_ms": 0,
    "detected_ms": 1,
}


@pytest.fixture
def observer(tmp_path: Path) -> Iterator[Observer]:
    with Admin(bootstrap_servers="127.0.0.1:1") as admin:  # asked only for offsets
        observer = Observer(tmp_path / "store", admin)
        observer.store.initialise()
        yield observer
        observer.close()


def test_an_alert_is_seen_once_in_a_line_that_says_why(observer: Observer) -> None:
    assert observer.new_alerts() == []
    observer.store.upsert(DEVICE_ALERT.name, pa.Table.from_pylist([DEVICE]), BATCH)
    assert [alert.why for alert in observer.new_alerts()] == ["device d1: ping_pong, 5 switches in 4 min"]
    observer.store.upsert(INVITE_ALERT.name, pa.Table.from_pylist([INVITE]), BATCH)
    expected = "inviter u9 scores 0.70: 7 invites in 300 s (0.2); 6 of 7 idle (0.5)"
    assert [alert.why for alert in observer.new_alerts()] == [expected]
    assert observer.new_alerts() == []
    assert observer.alert_count == len(observer.alerts()) == 2


def test_the_books_are_the_sum_of_all_balances(observer: Observer) -> None:
    assert observer.books() == Books(accounts=0, entries=0, credits=0)
    rows = [{"account_id": f"u{n}", "balance": 10 * n, "entries": n, "updated_ms": 1} for n in (1, 2, 3)]
    observer.store.upsert(BALANCE.name, pa.Table.from_pylist(rows), BATCH)
    assert observer.books() == Books(accounts=3, entries=6, credits=60)


@pytest.mark.process
def test_the_lag_of_a_group_is_what_is_behind_its_commits_now(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    try:
        config = {"bootstrap.servers": broker.address}
        with Admin(config) as admin, Producer(config) as producer:
            admin.create_topics([NewTopic("events", 2)])
            for number in range(5):
                producer.send("events", b"v", partition=number % 2)
            producer.flush()
            admin.alter_group_offsets("jobs", {TopicPartition("events", 0): 1, TopicPartition("events", 1): 2})
            observer = Observer(tmp_path / "store", admin)
            assert observer.lags(["jobs", "idle"]) == {"jobs": 2, "idle": None}
            admin.alter_group_offsets("jobs", {TopicPartition("events", 0): 3, TopicPartition("events", 1): 2})
            assert observer.lags(["jobs"]) == {"jobs": 0}
            observer.close()
    finally:
        broker.kill()
