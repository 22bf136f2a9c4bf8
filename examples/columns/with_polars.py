"""The last value of each key of a topic, with polars. Usage: with_polars.py HOST:PORT TOPIC."""

import sys

import polars

import ottla.columns


def main(bootstrap_servers: str, topic: str) -> None:
    frame = polars.from_arrow(ottla.columns.read(topic, bootstrap_servers=bootstrap_servers))
    assert isinstance(frame, polars.DataFrame)
    last = (
        frame.sort("partition", "offset").group_by("key").agg(polars.col("value").last(), polars.len().alias("count"))
    )
    for key, value, count in last.sort("key").iter_rows():
        print(key.decode(), value.decode(), count)


if __name__ == "__main__":
    main(*sys.argv[1:])
