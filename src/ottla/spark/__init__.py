"""Spark on the log: the data source `ottla`, and a Spark session that starts from what pip installs.

    from ottla.spark import register, register_mapped, spark_session

Loaded with their first use: a Python worker of Spark's that only reads must not pay for a session.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ottla.core.extras import needs_extra

if TYPE_CHECKING:
    from ottla.spark.connector_jars import find_connector_jars
    from ottla.spark.mapped_source import register_mapped
    from ottla.spark.session import spark_session
    from ottla.spark.source import OttlaDataSource, register

__all__ = ["OttlaDataSource", "find_connector_jars", "register", "register_mapped", "spark_session"]

_HOMES = {
    "OttlaDataSource": "ottla.spark.source",
    "find_connector_jars": "ottla.spark.connector_jars",
    "register": "ottla.spark.source",
    "register_mapped": "ottla.spark.mapped_source",
    "spark_session": "ottla.spark.session",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ottla.spark' has no attribute {name!r}")
    with needs_extra(f"ottla.spark.{name}", "spark", "columns"):
        return getattr(importlib.import_module(home), name)
