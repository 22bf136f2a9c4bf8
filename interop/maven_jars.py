"""Jars that a peer is made of: fetched once by Maven into the user's cache, as a pom.xml names them."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path


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


def fetched_jars(name: str, version: str, pom: Path) -> Path:
    """The folder with the jars of this pom, which takes its version as `<name>.version`."""
    what = f"Apache {name.capitalize()}"

    def goals(folder: Path) -> list[list[str]]:
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        return [["-f", str(pom), f"-D{name}.version={version}", *copy]]

    return cached_jars(f"{name}-{version}", goals, what=what)


def cached_jars(folder_name: str, goals: Callable[[Path], list[list[str]]], *, what: str) -> Path:
    """A folder of the user's cache, filled by these runs of Maven unless it was before."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_home / "ottla" / folder_name
    complete = folder / ".complete"
    if complete.exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissingError(f"no mvn: {what} comes from Maven (Debian: maven)")
    folder.mkdir(parents=True, exist_ok=True)
    for arguments in goals(folder):
        fetched = subprocess.run([maven, "-q", "-B", *arguments], capture_output=True, text=True, check=False)
        if fetched.returncode != 0:
            raise PeerMissingError(f"mvn could not fetch {what}, {folder_name}:\n{fetched.stdout[-2000:]}")
    complete.touch()
    return folder
