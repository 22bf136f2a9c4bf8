"""SQL over a topic that is larger than memory, with DuckDB: it takes RecordBatches as they are fetched.

Usage: with_duckdb.py HOST:PORT TOPIC; values are JSON.
"""

import sys

import duckdb

import ottla.columns


def main(bootstrap_servers: str, topic: str) -> None:
    records = ottla.columns.read_batches(topic, bootstrap_servers=bootstrap_servers)
    answer = duckdb.from_arrow(records).query(
        "records",
        """
        select decode(key) as customer, count(*) as orders,
            sum(cast(decode(value)::json ->> 'amount' as integer)) as spent
        from records group by customer order by spent desc limit 3
        """,
    )
    for customer, orders, spent in answer.fetchall():
        print(customer, orders, spent)


if __name__ == "__main__":
    main(*sys.argv[1:])
