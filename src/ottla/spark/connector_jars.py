"""Finds the jars of Spark's own Kafka connector, for `--connector kafka`. Downloads nothing."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "OTTLA_SPARK_KAFKA_JARS"
# These versions work on PySpark 4.3: batch, stream and sink.
COORDINATES: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)


class ConnectorNotFound(FileNotFoundError):
    """The jars were not found; the message says how to get them."""


def find_connector_jars(
    folder: str | os.PathLike[str] | None = None, environment: Mapping[str, str] | None = None
) -> list[Path]:
    """One jar for each of COORDINATES, whatever its version, from a folder or from `OTTLA_SPARK_KAFKA_JARS`.

    For `spark_session(extra_jars=...)`.
    """
    given = folder if folder is not None else (os.environ if environment is None else environment).get(VARIABLE)
    if not given:
        raise ConnectorNotFound(f"{VARIABLE} is not set; {_how_to_get_them()}")
    folder_path = Path(given)
    if not folder_path.is_dir():
        raise ConnectorNotFound(f"{folder_path} is not a folder; {_how_to_get_them()}")
    found = []
    missing = []
    for coordinates in COORDINATES:
        artifact = coordinates.split(":")[1]
        jars = sorted(folder_path.glob(f"{artifact}-[0-9]*.jar"))
        if len(jars) > 1:
            raise ConnectorNotFound(
                f"{folder_path} has several versions of {artifact}: {', '.join(j.name for j in jars)}"
            )
        found += jars
        if not jars:
            missing.append(artifact)
    if missing:
        raise ConnectorNotFound(f"{folder_path} has no jar of {', '.join(missing)}; {_how_to_get_them()}")
    return found


def _how_to_get_them() -> str:
    listed = " ".join(COORDINATES)
    return (
        "Spark's Kafka connector comes from Maven, not with pyspark. Into a folder DIR, for each of "
        f"{listed}: mvn dependency:copy -Dartifact=<it> -DoutputDirectory=DIR ; then set {VARIABLE}=DIR"
    )
