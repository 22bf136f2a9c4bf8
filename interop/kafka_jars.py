"""Apache Kafka's jars: fetched once by Maven into the user's cache, and the java that runs them."""

import shutil
from pathlib import Path

from interop.maven_jars import PeerMissingError, fetched_jars, java_command

__all__ = ["KAFKA_VERSION", "PeerMissingError", "jars_dir", "java_command", "missing_for_kafka"]

KAFKA_VERSION = "4.3.0"
_POM = Path(__file__).with_name("pom.xml")


def jars_dir() -> Path:
    """The folder with Kafka's jars; fetched when it is not there yet."""
    return fetched_jars("kafka", KAFKA_VERSION, _POM)


def missing_for_kafka() -> str:
    """Empty when Kafka can run here, else what is missing. Does not fetch anything."""
    try:
        java_command()
    except PeerMissingError as missing:
        return str(missing)
    if shutil.which("mvn") is None:
        try:
            jars_dir()
        except PeerMissingError as missing:
            return str(missing)
    return ""
