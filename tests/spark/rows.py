"""What the tests of the source share: options for a broker, and rows as plain tuples."""

from collections.abc import Iterable
from typing import Any

from ottla.spark.options import ReadOptions, Use, parse_read_options
from ottla.testing.broker import OttlaBroker


def read_options(broker: OttlaBroker, use: Use = Use.BATCH, **options: str) -> ReadOptions:
    """Underscores for dots, twice: `kafka__isolation__level`."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    return parse_read_options({"kafka.bootstrap.servers": broker.bootstrap_servers} | named, use)


def offsets_of(batches: Iterable[Any]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]
