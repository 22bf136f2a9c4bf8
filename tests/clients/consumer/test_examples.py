"""The worked examples: offsets beside the results, one consumer per thread, one consumer with workers."""

import importlib.util
import sqlite3
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from tests.processes import BrokerProcess, eventually

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).parents[3] / "examples" / "consumer"
MakeTopic = Callable[..., str]


def example(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def committed(broker: BrokerProcess, group_id: str, topic: str, partitions: int) -> list[int]:
    consumer = ConfluentConsumer({"bootstrap.servers": broker.address, "group.id": group_id, "log_level": 0})
    topic_partitions = consumer.committed([ConfluentPartition(topic, number) for number in range(partitions)], 10)
    consumer.close()
    return [topic_partition.offset for topic_partition in topic_partitions]


def test_offsets_in_sqlite_count_every_record_once_through_a_crash(
    broker: BrokerProcess, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, path = make_topic(2, 30), str(tmp_path / "counts.sqlite")
    module = example("offsets_in_sqlite")
    plain_store = module.store

    def store_and_crash(database: sqlite3.Connection, records: list[Any]) -> None:
        plain_store(database, records[:7])
        with database:  # a transaction that is begun and never committed
            database.execute("INSERT INTO counts VALUES ('ghost', 1)")
            raise ZeroDivisionError

    monkeypatch.setattr(module, "store", store_and_crash)
    with pytest.raises(ZeroDivisionError):
        module.run(broker.address, topic, path)
    monkeypatch.setattr(module, "store", plain_store)

    def counts() -> dict[str, int]:
        with sqlite3.connect(path) as database:
            return dict(database.execute("SELECT word, count FROM counts"))

    assert set(counts().values()) == {1}
    assert len(counts()) == 7
    module.run(broker.address, topic, path, should_stop=lambda: len(counts()) == 30)
    assert counts() == {f"v{number}": 1 for number in range(30)}


def test_one_consumer_per_thread_shares_the_partitions(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic, group_id = make_topic(3, 60), f"g-{uuid.uuid4().hex[:8]}"
    module = example("consumer_per_thread")
    seen: list[tuple[int, int]] = []
    settings = {"bootstrap.servers": broker.address, "group.id": group_id, "auto.offset.reset": "earliest"}
    threads = [
        module.ReaderThread(settings, topic, lambda record: seen.append((record.partition, record.offset)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: len(set(seen)) == 60)
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert committed(broker, group_id, topic, 3) == [20, 20, 20]


def test_a_worker_pool_commits_only_what_is_done(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic, group_id = make_topic(2, 60), f"g-{uuid.uuid4().hex[:8]}"
    module = example("worker_pool")
    go_on = threading.Event()
    seen: Counter[tuple[int, int]] = Counter()

    def work(record: Any) -> None:
        if record.offset == 5:  # slow: all before it may be committed, nothing behind it
            go_on.wait(20)
        seen[record.partition, record.offset] += 1

    stop = threading.Event()
    settings = {"bootstrap.servers": broker.address, "group.id": group_id, "auto.offset.reset": "earliest"}
    reader = module.PooledReader(settings, topic, work, workers=6)
    thread = threading.Thread(target=reader.run, args=(stop.is_set,))
    thread.start()
    eventually(lambda: len(seen) == 58)
    eventually(lambda: committed(broker, group_id, topic, 2) == [5, 5])
    go_on.set()
    eventually(lambda: len(seen) == 60)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert committed(broker, group_id, topic, 2) == [30, 30]
    assert set(seen.values()) == {1}
