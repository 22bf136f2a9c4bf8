"""What Cassandra's driver alone writes, as a process: `python -m bench.cassandra_writing HOST:PORT/KEYSPACE`.

Takes the rows of the log tables of this keyspace and writes them to the same tables of another one, as the driver's
manual says: prepared statements, many of them under way at once. Only the writing counts.
"""

import json
import sys
import time

import pyarrow as pa
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import UNSET_VALUE

from ottla.pipeline.stores.arrow_rows import rows_of
from ottla.pipeline.stores.cassandra.connecting import IN_FLIGHT_MAX, Connection, parse_address
from ottla.pipeline.stores.cassandra.schema import insert_statement
from ottla.pipeline.stores.cassandra.store import CassandraStore
from ottla.pipeline.tables import LOG_TABLES

_KEYSPACE = "driver_alone"


def main() -> None:
    address = parse_address(sys.argv[1])
    store = CassandraStore(address)
    rows = {table: rows_of(pa.Table.from_batches(list(store.scan(table)))) for table in LOG_TABLES}
    store.close()
    target = CassandraStore(address._replace(keyspace=_KEYSPACE))
    target.initialise()
    target.close()
    connection = Connection(address)
    seconds = 0.0
    for name, table in LOG_TABLES.items():
        time_place = table.column_names.index("event_time")
        statement = connection.prepared(insert_statement(_KEYSPACE, table))
        values = [
            [*(UNSET_VALUE if value is None else value for value in row), row[time_place] * 1000] for row in rows[name]
        ]
        started = time.perf_counter()
        execute_concurrent_with_args(connection.session, statement, values, concurrency=IN_FLIGHT_MAX)
        seconds += time.perf_counter() - started
    connection.close()
    print(json.dumps({"rows": sum(map(len, rows.values())), "seconds": seconds}))


if __name__ == "__main__":
    main()
