"""One Spark for all tests that need it, on the Java that pip installs: `make test` must need nothing else.

Such tests are one group and run first: with `--dist loadgroup --no-loadscope-reorder` one worker has all of them, and
Spark starts once. Every other file is a group of its own, so that the broker that a module shares starts once, too.
"""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


def uses_spark(test: Callable[..., T]) -> Callable[..., T]:
    """Marks a test that takes the fixture `spark`; `pytestmark = [*SPARK_MARKS]` marks a module."""
    for mark in SPARK_MARKS:
        test = mark(test)
    return test


SPARK_MARKS = (pytest.mark.spark, pytest.mark.xdist_group("spark"))


def put_spark_first(items: list[pytest.Item]) -> None:
    """In their order otherwise; and those in no group are one with the others of their file."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Started with the first test that asks for it; tests leave no query running."""
    from ottla.spark import spark_session
    from ottla.spark.java import packaged_java_home
    from ottla.spark.session import CARRYING_JAVA

    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(packaged_java_home() or before or "")
    session = spark_session(
        "local[2,4]",
        "tests",
        work_dir=tmp_path_factory.mktemp("spark"),
        shuffle_partitions=2,
        java_options=CARRYING_JAVA,
    )
    yield session
    session.stop()
    if before is None:
        del os.environ["JAVA_HOME"]
    else:
        os.environ["JAVA_HOME"] = before
