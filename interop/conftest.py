"""Fixtures of the interop tests: a broker to talk to, topics on it, and Kafka's tools where the machine can run them.

`OTTLA_INTEROP_BROKER=kafka` puts Apache Kafka in the place of our broker: so the tests themselves are checked.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from interop.broker_process import BrokerProcess
from interop.cassandra_peer import CassandraPeer
from interop.kafka_jars import PeerMissingError, jars_dir, java_command
from interop.kafka_peer import KafkaPeer
from interop.ottla_broker import OttlaBroker
from interop.spark_connector import connector_jars
from ottla.spark import spark_session

CreateTopic = Callable[..., str]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "smoke: quick ones, run by `make interop-smoke`")
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """As Ctrl-C does: fixtures end what they have started."""
    raise KeyboardInterrupt


@pytest.fixture(scope="session")
def kafka_tools() -> None:
    """Kafka's jars and a java; the tests that need them are skipped, with the reason, where they cannot be had."""
    try:
        java_command()
        jars_dir()
    except PeerMissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def cassandra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CassandraPeer]:
    """One for all: who uses it has a keyspace of its own."""
    peer = CassandraPeer(tmp_path_factory.mktemp("cassandra") / "data")
    try:
        peer.start()
    except PeerMissingError as missing:
        pytest.skip(str(missing))
    yield peer
    peer.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One for all, with the jars of Spark's own connector where they can be had: a running Java takes no more in."""
    try:
        jars = connector_jars()
    except PeerMissingError:
        jars = []
    session = spark_session("local[2,4]", extra_jars=jars, work_dir=tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def new_broker(data_dir: Path, *, overrides: Mapping[str, str] | None = None) -> BrokerProcess:
    broker = KafkaPeer if os.environ.get("OTTLA_INTEROP_BROKER") == "kafka" else OttlaBroker
    return broker(data_dir, overrides=overrides)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # A group starts with its first member: each test waits for its own members anyway.
    overrides = {"group.initial.rebalance.delay.ms": "0"}
    with new_broker(tmp_path_factory.mktemp("broker") / "data", overrides=overrides) as running:
        yield running


@pytest.fixture(scope="module")
def create_topic(broker: BrokerProcess) -> CreateTopic:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def create(name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result(timeout=30)
        return name

    return create
