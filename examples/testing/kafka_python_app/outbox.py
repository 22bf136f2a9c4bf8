"""An app with kafka-python: publishes the rows of an outbox table, and deletes those that the broker has stored."""

import sqlite3

from kafka import KafkaProducer
from kafka.errors import KafkaError


class Outbox:
    """Publishes rows in order; a row that was not stored stays in the table, and so do all rows after it."""

    def __init__(self, database: sqlite3.Connection, bootstrap_servers: str) -> None:
        self._database = database
        self._bootstrap_servers = bootstrap_servers
        self._producer = self._open_producer()
        database.execute("create table if not exists outbox (id integer primary key, topic text, value blob)")

    def add(self, topic: str, value: bytes) -> None:
        with self._database:
            self._database.execute("insert into outbox (topic, value) values (?, ?)", (topic, value))

    def publish(self) -> int:
        """Returns how many rows were published."""
        published = 0
        for row, topic, value in self._database.execute("select * from outbox order by id").fetchall():
            try:
                self._producer.send(topic, value).get(timeout=10)
            except KafkaError:
                # An idempotent producer of kafka-python can't be used after an error that it could not retry.
                self._producer.close()
                self._producer = self._open_producer()
                break
            with self._database:
                self._database.execute("delete from outbox where id = ?", (row,))
            published += 1
        return published

    def waiting(self) -> int:
        count: int = self._database.execute("select count(*) from outbox").fetchone()[0]
        return count

    def close(self) -> None:
        self._producer.close()

    def _open_producer(self) -> KafkaProducer:
        return KafkaProducer(
            bootstrap_servers=self._bootstrap_servers, client_id="outbox", acks="all", retries=3, retry_backoff_ms=20
        )
