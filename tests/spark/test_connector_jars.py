"""Where the jars of Spark's own connector are looked for."""

from pathlib import Path

import pytest

from ottla.spark.connector_jars import COORDINATES, VARIABLE, ConnectorNotFound, find_connector_jars


def put_jars(folder: Path, names: list[str]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    jars = [folder / name for name in names]
    for jar in jars:
        jar.touch()
    return jars


ALL = [f"{artifact}-{version}.jar" for _, artifact, version in (each.split(":") for each in COORDINATES)]


def test_one_jar_of_each_is_found(tmp_path: Path) -> None:
    jars = put_jars(tmp_path, ALL)
    put_jars(tmp_path, ["kafka-clients-extra.jar", "unrelated-1.jar"])
    assert find_connector_jars(tmp_path, {}) == jars
    assert find_connector_jars(environment={VARIABLE: str(tmp_path)}) == jars


def test_what_is_missing_is_said_with_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConnectorNotFound, match=rf"{VARIABLE} is not set; .*spark-sql-kafka-0-10_2\.13:4\.2\.0.*mvn"):
        find_connector_jars(environment={})
    with pytest.raises(ConnectorNotFound, match="is not a folder"):
        find_connector_jars(tmp_path / "nothing")
    put_jars(tmp_path, ALL[:-1])
    with pytest.raises(ConnectorNotFound, match=r"has no jar of commons-pool2; .*mvn"):
        find_connector_jars(tmp_path)
    put_jars(tmp_path, [*ALL, "kafka-clients-4.0.0.jar"])
    with pytest.raises(
        ConnectorNotFound, match=r"several versions of kafka-clients: kafka-clients-3\.9\.0\.jar, kafka"
    ):
        find_connector_jars(tmp_path)
