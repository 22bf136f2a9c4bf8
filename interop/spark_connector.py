"""The jars of Spark's own Kafka connector: fetched once by Maven into the user's cache."""

import os
import shutil
import subprocess
from pathlib import Path

from interop.kafka_jars import PeerMissingError
from ottla.spark.connector_jars import COORDINATES, VARIABLE, find_connector_jars


def connector_jars() -> list[Path]:
    """From the folder that `OTTLA_SPARK_KAFKA_JARS` names, else from the cache."""
    named = os.environ.get(VARIABLE)
    return find_connector_jars(named or _fetched())


def _fetched() -> Path:
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_home / "ottla" / f"spark-kafka-{COORDINATES[0].rpartition(':')[2]}"
    complete = folder / ".complete"
    if complete.exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissingError(f"no mvn: Spark's Kafka connector comes from Maven (Debian: maven), or set {VARIABLE}")
    folder.mkdir(parents=True, exist_ok=True)
    for coordinates in COORDINATES:
        # Each by itself and without what it depends on: Spark has the rest, in versions of its own.
        fetched = subprocess.run(
            [
                *(maven, "-q", "-B", "dependency:get", f"-Dartifact={coordinates}", "-Dtransitive=false"),
                *("dependency:copy", f"-DoutputDirectory={folder}"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if fetched.returncode != 0:
            raise PeerMissingError(f"mvn could not fetch {coordinates}:\n{fetched.stdout[-2000:]}")
    complete.touch()
    return folder
