"""The store on a real Cassandra: the suite of all stores, and what is its own (timestamps, executors)."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.broker_process import free_port
from interop.cassandra_peer import CassandraPeer
from ottla.pipeline.stores.cassandra import schema
from ottla.pipeline.stores.cassandra.connecting import Connection, parse_address
from ottla.pipeline.stores.cassandra.store import CassandraStore
from ottla.pipeline.stores.embedded.store import EmbeddedStore
from ottla.pipeline.stores.opening import open_store
from ottla.pipeline.stores.port import Store, StoreError
from tests.pipeline.stores.conformance import StoreConformance
from tests.pipeline.stores.retention_conformance import RetentionConformance
from tests.pipeline.stores.rows import (
    DAY_MS,
    LOGINS,
    MONDAY_MS,
    batch,
    contents,
    entries,
    entry,
    event,
    events,
    step,
    steps,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def connection(cassandra: CassandraPeer) -> Iterator[Connection]:
    connection = Connection(parse_address(f"{cassandra.bootstrap}/ottla"))
    yield connection
    connection.close()


@pytest.fixture
def store(cassandra: CassandraPeer, connection: Connection) -> Iterator[Store]:
    """Tables are made once and emptied for each test: making them takes seconds."""
    store = open_store("cassandra", cassandra=f"{cassandra.bootstrap}/ottla")
    store.initialise()
    yield store
    store.close()
    empty(connection)


def empty(connection: Connection) -> None:
    keyspaces = [name for (name,) in connection.execute("SELECT keyspace_name FROM system_schema.keyspaces")]
    for keyspace in keyspaces:
        if keyspace.startswith("ottla_"):
            connection.execute(f"DROP KEYSPACE {keyspace}")
    for table in schema.tables_in(connection, "ottla"):
        if connection.execute(f"SELECT * FROM ottla.{table} LIMIT 1"):
            connection.execute(f"TRUNCATE ottla.{table}")


class TestCassandraRetention(RetentionConformance):
    """See the suite."""


class TestCassandraStore(StoreConformance):
    """See the suite."""

    def test_events_are_written_as_of_their_own_time_and_folds_as_of_now(
        self, store: Store, connection: Connection
    ) -> None:
        store.append_arrow(events([event(1)]), batch(0))
        store.post_arrow(entries(entry("a", "account-1", 5)), steps(step(1, 1)), batch(0))
        assert connection.execute("SELECT WRITETIME(credit) FROM ottla.credit_log") == [((MONDAY_MS + 1000) * 1000,)]
        written = connection.execute("SELECT rule, WRITETIME(amount) FROM ottla.ledger")
        first = dict(connection.execute("SELECT account_id, WRITETIME(balance) FROM ottla.balance"))
        assert dict(written)["credit"] == MONDAY_MS * 1000
        assert dict(written)["task_reward"] == first["account-1"]
        store.post_arrow(entries(entry("b", "account-1", 5, MONDAY_MS - 9 * DAY_MS)), steps(), batch(1))
        second = dict(connection.execute("SELECT account_id, WRITETIME(balance) FROM ottla.balance"))
        assert second["account-1"] > first["account-1"]

    @pytest.mark.spark
    def test_executors_write_what_the_embedded_store_writes(
        self, store: Store, spark: "SparkSession", tmp_path: Path
    ) -> None:
        rows = [
            event(n, topic=LOGINS if n % 3 else "ml_obtain_credit_log", event_time=MONDAY_MS + n % 2 * DAY_MS + n)
            for n in range(200)
        ]
        rows += [event(300, "event-3"), event(301, "event-6", credit=99, event_time=MONDAY_MS)]
        embedded = EmbeddedStore(tmp_path / "embedded")
        embedded.initialise()
        frame = spark.createDataFrame(events(rows)).repartition(3)
        some_entries = spark.createDataFrame(entries(*(entry(f"e{n}", f"account-{n % 5}", n) for n in range(50))))
        some_steps = spark.createDataFrame(steps(step(1, 2), step(2, 2), step(1, 3, task="task-2")))
        told = []
        for each in (store, embedded):
            told.append((each.append_events(frame, batch(0)), each.post(some_entries, some_steps, batch(0))))
        assert told[0] == told[1]
        assert len(told[0][0].conflicts) == 1
        assert list(store.compare(embedded)) == []
        embedded.close()

    def test_a_batch_that_was_cut_short_anywhere_is_made_good_when_it_is_run_again(
        self, store: Store, cassandra: CassandraPeer, connection: Connection
    ) -> None:
        address = parse_address(f"{cassandra.bootstrap}/ottla")

        def run(each: Store) -> None:
            each.append_arrow(events([event(2, "a"), event(3), event(4, event_time=MONDAY_MS + DAY_MS)]), batch(1))
            each.post_arrow(entries(entry("a", "one", 5), entry("b", "one", 6)), steps(step(2, 2)), batch(1))

        def begin(each: Store) -> None:
            each.append_arrow(events([event(1, "a")]), batch(0))
            each.post_arrow(entries(entry("a", "one", 5)), steps(step(1, 2)), batch(0))

        begin(store)
        run(store)
        expected = contents(store)
        cut_at = 0
        while True:
            empty(connection)
            begin(CassandraStore(address, connection=connection))
            ending = EndingConnection(address, cut_at)
            try:
                run(CassandraStore(address, connection=ending))
            except Ended:
                pass
            else:
                break
            finally:
                ending.close()
            again = CassandraStore(address, connection=connection)
            run(again)
            assert contents(again) == expected, f"cut at write {cut_at}"
            cut_at += 1
        assert cut_at > 8

    def test_tables_of_another_version_are_refused_in_words(self, store: Store, connection: Connection) -> None:
        set_version = f"INSERT INTO ottla.{schema.META} (name, value) VALUES (?, ?)"
        connection.execute(set_version, ["version", "0"])
        with pytest.raises(StoreError, match="tables of version 0, this is version 1"):
            store.initialise()

    def test_a_shadow_of_the_same_name_can_be_made_after_a_swap(self, store: Store) -> None:
        store.shadow("replay").close()
        store.swap("replay")
        shadow = store.shadow("replay")
        shadow.append_arrow(events([event(1)]), batch(0))
        shadow.close()
        assert contents(store)["credit_log"] == []
        with pytest.raises(StoreError, match="kept from an earlier swap"):
            store.swap("replay")


def test_a_cluster_that_is_not_there_is_told() -> None:
    with pytest.raises(StoreError, match=r"connecting to Cassandra at 127\.0\.0\.1"):
        open_store("cassandra", cassandra=f"127.0.0.1:{free_port()}/ottla")


class Ended(BaseException):
    """In the place of SIGKILL."""


class EndingConnection(Connection):
    """Ends in the midst of one of its writes: half of the rows are written."""

    def __init__(self, address: Any, step: int) -> None:
        super().__init__(address)
        self._writes_left = step

    def write_all(self, statement: str, rows: Iterable[Sequence[Any]]) -> int:
        rows = list(rows)
        if rows and self._is_last():
            super().write_all(statement, rows[: len(rows) // 2])
            raise Ended
        return super().write_all(statement, rows)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if statement.startswith("INSERT") and self._is_last():
            raise Ended
        return super().execute(statement, values)

    def _is_last(self) -> bool:
        self._writes_left -= 1
        return self._writes_left < 0
