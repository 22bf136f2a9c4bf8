"""Exactly once without transactions on the broker: results and offsets in the user's own database, in one transaction.

Counts words per key into SQLite. The database has the offsets too: whatever kills this program, the next start
continues where the results end. It commits nothing to the group, which only assigns the partitions.

    python offsets_in_sqlite.py 127.0.0.1:9092 TOPIC counts.sqlite
"""

import sqlite3
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ottla import Consumer
from ottla.clients.consumer.listener import RebalanceListener
from ottla.core.types import TopicPartition

SCHEMA = """
CREATE TABLE IF NOT EXISTS counts (word TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, partition)
);
"""


class StoredPositions(RebalanceListener):
    """Seeks to the stored offset of each assigned partition; one without an offset starts by auto.offset.reset."""

    def __init__(self, consumer: Consumer, database: sqlite3.Connection) -> None:
        self._consumer = consumer
        self._database = database

    def on_partitions_assigned(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            row = self._database.execute(
                "SELECT next_offset FROM offsets WHERE topic = ? AND partition = ?", place
            ).fetchone()
            if row is not None:
                self._consumer.seek(place, row[0])


def store(database: sqlite3.Connection, records: Sequence[Any]) -> None:
    """One transaction: after a crash all of it is stored, or nothing."""
    with database:
        for record in records:
            for word in record.value.decode().split():
                database.execute(
                    "INSERT INTO counts VALUES (?, 1) ON CONFLICT (word) DO UPDATE SET count = count + 1", (word,)
                )
            # A member that is out of the group without knowing it must not overwrite a newer offset of its successor.
            moved = database.execute(
                "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT (topic, partition)"
                " DO UPDATE SET next_offset = excluded.next_offset WHERE next_offset <= ?",
                (record.topic, record.partition, record.offset + 1, record.offset),
            )
            if moved.rowcount == 0:
                raise RuntimeError(f"{record.topic}-{record.partition}: offset {record.offset} is counted already")


def run(bootstrap: str, topic: str, path: str, *, should_stop: Callable[[], bool] = lambda: False) -> None:
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "word-counts",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    with Consumer(settings) as consumer:
        consumer.subscribe([topic], StoredPositions(consumer, database))
        while not should_stop():
            records = consumer.poll(timeout_ms=200)
            if records:
                store(database, records)
    database.close()


if __name__ == "__main__":
    run(*sys.argv[1:4])
