"""The environment of a session's Java and of its Python workers.

A session on this machine ignores what the caller's environment says about another Spark, Hadoop or Python. A session of
a cluster keeps what the user has set for that cluster. Starts nothing but `locale -a`, and changes the process's own
environment only within `applied`.
"""

import ctypes
import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ottla.spark.foreign_spark import holds_spark

LOOPBACK: Final = "127.0.0.1"

_OTHERS: Final = ("SPARK_", "PYSPARK_", "_PYSPARK_", "HADOOP_", "YARN_", "HIVE_")
# It overrides every option that we give Java, also its memory.
_JAVA_OVERRIDE: Final = "_JAVA_OPTIONS"
_UTF8_LOCALES: Final = ("C.UTF-8", "C.utf8", "en_US.UTF-8")
_LC_CTYPE_MASK: Final = 1
_ASKED_S: Final = 10


class SparkEnvironment(NamedTuple):
    """`ignored` are the names of the caller's variables that the session ignores."""

    variables: Mapping[str, str]
    ignored: tuple[str, ...]


def local_environment(
    given: Mapping[str, str], *, spark_home: Path, conf_dir: Path, python: Path, java_home: Path | None
) -> SparkEnvironment:
    """For Spark on this machine. `python` starts workers; `java_home` is None if `java` of the path is right."""
    ignored = {name for name in given if name.startswith(_OTHERS) or name == _JAVA_OVERRIDE}
    variables = {name: value for name, value in given.items() if name not in ignored}
    kept = [each for each in given.get("PYTHONPATH", "").split(os.pathsep) if each]
    ours = [each for each in kept if not _is_foreign(Path(each), spark_home=spark_home)]
    if ours != kept:
        ignored.add("PYTHONPATH")
        variables["PYTHONPATH"] = os.pathsep.join(ours)
    variables |= {
        "SPARK_HOME": str(spark_home),
        # Otherwise Spark would read the installation's, with its spark-defaults.conf.
        "SPARK_CONF_DIR": str(conf_dir),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return SparkEnvironment(_for_java(variables, java_home), tuple(sorted(ignored)))


def cluster_environment(given: Mapping[str, str], *, spark_home: Path, java_home: Path | None) -> SparkEnvironment:
    """For a driver of a cluster: keeps what the user has set, except a SPARK_HOME without Spark in it."""
    variables = dict(given)
    ignored = []
    named = given.get("SPARK_HOME")
    if named is None or not (Path(named) / "bin" / "spark-submit").is_file():
        variables["SPARK_HOME"] = str(spark_home)
        ignored = [] if named is None else ["SPARK_HOME"]
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        variables.setdefault(name, sys.executable)
    return SparkEnvironment(_for_java(variables, java_home), tuple(ignored))


@contextmanager
def applied(variables: Mapping[str, str]) -> Iterator[None]:
    """Makes this the process's own environment within the block: pyspark reads it only from there."""
    before = dict(os.environ)
    try:
        _become(variables)
        yield
    finally:
        _become(before)


def _become(variables: Mapping[str, str]) -> None:
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    for name, value in variables.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _for_java(variables: dict[str, str], java_home: Path | None) -> dict[str, str]:
    if java_home is not None:
        variables["JAVA_HOME"] = str(java_home)
    else:
        variables.pop("JAVA_HOME", None)
    # Java encodes file names by the locale: with the plain C one only ASCII works.
    name = utf8_locale()
    if name is not None:
        variables["LC_ALL"] = name
    return variables


@functools.cache
def utf8_locale() -> str | None:
    """The name of a locale of this machine whose encoding is UTF-8; None if it has none, or needs none."""
    if sys.platform == "darwin":
        return None  # Java takes UTF-8 there whatever the locale
    for name in _UTF8_LOCALES:
        if _is_installed(name):
            return name
    try:
        listed = subprocess.run(
            ["locale", "-a"], capture_output=True, text=True, errors="replace", timeout=_ASKED_S, check=False
        ).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next((name for name in listed if name.lower().endswith(("utf-8", "utf8"))), None)


def _is_installed(locale: str) -> bool:
    """Asks the C library, without changing the process's own locale."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "newlocale"):
        return False
    libc.newlocale.restype = ctypes.c_void_p
    libc.newlocale.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    libc.freelocale.argtypes = (ctypes.c_void_p,)
    found = libc.newlocale(_LC_CTYPE_MASK, locale.encode(), None)
    if found is None:
        return False
    libc.freelocale(found)
    return True


def _is_foreign(entry: Path, *, spark_home: Path) -> bool:
    own = entry / spark_home.name
    return holds_spark(entry) and not (own.exists() and own.samefile(spark_home))
