"""The tables in CQL, from their declarations, and the store's own tables."""

from collections.abc import Sequence
from typing import Final

from ottla.pipeline.stores.cassandra.connecting import Address, Connection
from ottla.pipeline.stores.port import StoreError
from ottla.pipeline.tables import INTEGER, REAL, TABLES, TEXT, Table

VERSION: Final = "1"
_TYPES: Final = {TEXT: "text", INTEGER: "bigint", REAL: "double"}

# Digests of the ids of a batch's events, by table and day, so that no event needs a read.
ID_INDEX: Final = "id_index"
BALANCE_DAY: Final = "balance_day"
EVENT_TIME_HIGH: Final = "event_time_high"
BATCH_MARK: Final = "batch_mark"
META: Final = "store_meta"
ACTIVE: Final = "active"
_OWN_TABLES: Final = {
    META: "name text PRIMARY KEY, value text",
    ID_INDEX: "of_table text, day text, of_batch text, part int, ids blob,"
    " PRIMARY KEY ((of_table, day), of_batch, part)",
    BALANCE_DAY: "account_id text, day bigint, subtotal bigint, entry_count bigint, PRIMARY KEY (account_id, day)",
    EVENT_TIME_HIGH: "job text, topic text, partition bigint, slot int, noted bigint, next_offset bigint,"
    " high_ms bigint, PRIMARY KEY ((job, topic, partition), slot)",
    BATCH_MARK: "job text, run text, call text, number bigint, outcome text, PRIMARY KEY (job, run, call)",
}


def make_keyspace(connection: Connection, keyspace: str, *, like: str | None = None) -> None:
    """An existing keyspace stays as it is. `like`: a new one gets the replication of that keyspace."""
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    if like is not None:
        rows = connection.execute("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?", [like])
        replication = str(dict(rows[0][0]))
    connection.execute(f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}")


def make_tables(connection: Connection, keyspace: str) -> None:
    there = tables_in(connection, keyspace)
    for table in TABLES.values():
        if table.name not in there:
            connection.execute(create_statement(keyspace, table))
            continue
        rows = connection.execute(
            "SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?",
            [keyspace, table.name],
        )
        names = {name for (name,) in rows}
        if names != set(table.column_names):
            raise StoreError(
                f"{keyspace}.{table.name} has the columns {', '.join(sorted(names))}, expected "
                f"{', '.join(sorted(table.column_names))}: another release made it; take that one, or another keyspace"
            )
    for name, columns in _OWN_TABLES.items():
        if name not in there:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {keyspace}.{name} ({columns})")
    seen = connection.execute(f"SELECT value FROM {keyspace}.{META} WHERE name = ?", ["version"])
    if seen and seen[0][0] != VERSION:
        raise StoreError(
            f"{keyspace} holds tables of version {seen[0][0]}, this is version {VERSION}: take the release of "
            "Ottla that made them, or another keyspace and a replay"
        )
    connection.execute(f"INSERT INTO {keyspace}.{META} (name, value) VALUES (?, ?)", ["version", VERSION])


def create_statement(keyspace: str, table: Table) -> str:
    columns = ", ".join(f'"{column.name}" {_TYPES[column.type]}' for column in table.columns)
    key = ", ".join([f"({_list(table.partition_key)})", *(f'"{name}"' for name in table.clustering_key)])
    return f"CREATE TABLE IF NOT EXISTS {keyspace}.{table.name} ({columns}, PRIMARY KEY ({key}))"


def insert_statement(keyspace: str, table: Table) -> str:
    """The last value is the timestamp, in microseconds."""
    marks = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {keyspace}.{table.name} ({_list(table.column_names)}) VALUES ({marks}) USING TIMESTAMP ?"


def tables_in(connection: Connection, keyspace: str) -> set[str]:
    rows = connection.execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", [keyspace])
    return {name for (name,) in rows}


def active_keyspace(connection: Connection, address: Address) -> str:
    """The keyspace of the tables: that of the address, until a shadow has replaced it."""
    if META not in tables_in(connection, address.keyspace):
        return address.keyspace
    rows = connection.execute(f"SELECT value FROM {address.keyspace}.{META} WHERE name = ?", [ACTIVE])
    return str(rows[0][0]) if rows else address.keyspace


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
