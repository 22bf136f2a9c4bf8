"""Apache Kafka's jars: fetched once by Maven into the user's cache, and the java that runs them."""

import os
import shutil
import subprocess
from pathlib import Path

KAFKA_VERSION = "4.3.0"
_POM = Path(__file__).with_name("pom.xml")


class PeerMissingError(RuntimeError):
    """Something the peer needs is not on this machine; the message says what to install."""


def java_command() -> str:
    java_home = os.environ.get("JAVA_HOME")
    if java_home and os.access(f"{java_home}/bin/java", os.X_OK):
        return f"{java_home}/bin/java"
    java = shutil.which("java")
    if java is None:
        raise PeerMissingError("no java: install a Java 17 runtime or newer (Debian: default-jre-headless)")
    return java


def jars_dir() -> Path:
    """The folder with Kafka's jars; fetched when it is not there yet."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_home / "ottla" / f"kafka-{KAFKA_VERSION}"
    complete = folder / ".complete"
    if complete.exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissingError("no mvn: Apache Kafka comes from Maven (Debian: maven)")
    folder.mkdir(parents=True, exist_ok=True)
    fetched = subprocess.run(
        [
            *(maven, "-q", "-B", "-f", str(_POM), f"-Dkafka.version={KAFKA_VERSION}"),
            *("dependency:copy-dependencies", f"-DoutputDirectory={folder}"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode != 0:
        raise PeerMissingError(f"mvn could not fetch Apache Kafka {KAFKA_VERSION}:\n{fetched.stdout[-2000:]}")
    complete.touch()
    return folder


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
