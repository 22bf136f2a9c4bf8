"""One Spark for all tests that need it, on the Java that pip installs: `make test` must need nothing else.

Such tests run first, so that no worker is left with them at the end. With `--dist loadfile` a file's tests stay with
one worker: what a module shares, a broker or a story in several tests, is there once. A worker starts Spark once.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def put_spark_first(items: list[pytest.Item]) -> None:
    """In their order otherwise."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Started with the first test that asks for it; tests leave no query running."""
    from ottla.spark import spark_session
    from ottla.spark.java import packaged_java_home
    from ottla.spark.session import CARRYING_JAVA, LOCAL_CHECKPOINTS

    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(packaged_java_home() or before or "")
    session = spark_session(
        "local[2,4]",
        "tests",
        work_dir=tmp_path_factory.mktemp("spark"),
        shuffle_partitions=2,
        java_options=CARRYING_JAVA,
        settings=LOCAL_CHECKPOINTS,
    )
    yield session
    session.stop()
    if before is None:
        del os.environ["JAVA_HOME"]
    else:
        os.environ["JAVA_HOME"] = before
