"""The jars of Spark's own Kafka connector: fetched once by Maven into the user's cache."""

import os
from pathlib import Path

from interop.maven_jars import cached_jars
from ottla.spark.connector_jars import COORDINATES, VARIABLE, find_connector_jars


def connector_jars() -> list[Path]:
    """From the folder that `OTTLA_SPARK_KAFKA_JARS` names, else from the cache."""
    named = os.environ.get(VARIABLE)
    return find_connector_jars(named or _fetched())


def _fetched() -> Path:
    version = COORDINATES[0].rpartition(":")[2]
    return cached_jars(f"spark-kafka-{version}", _goals, what=f"Spark's Kafka connector (or set {VARIABLE})")


def _goals(folder: Path) -> list[list[str]]:
    """Each jar by itself and without what it depends on: Spark has the rest, in versions of its own."""
    copy = ["dependency:copy", f"-DoutputDirectory={folder}"]
    return [["dependency:get", f"-Dartifact={name}", "-Dtransitive=false", *copy] for name in COORDINATES]
