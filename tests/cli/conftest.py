"""Fixtures of the command line's tests: run `ottla` in this process, and have topics and records to run it on.

The tests of topics, groups and configs run on any broker: `interop/test_ottla_cli.py` runs the same on Apache Kafka.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ottla import Admin, NewTopic, Producer
from ottla.cli.main import main
from tests.processes import BrokerProcess

FIRST_TIMESTAMP_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z; the records of a topic are one second apart


class Ended(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of all lines; of the headings too."""
        return [line.split() for line in self.out.splitlines()]


Ottla = Callable[..., Ended]
MakeTopic = Callable[..., str]


@pytest.fixture(scope="module")
def bootstrap(shared_broker: BrokerProcess) -> str:
    return shared_broker.address


@pytest.fixture
def ottla(bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ottla:
    """Runs a command line against the broker."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", bootstrap)

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(arguments)
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def make_topic(bootstrap: str) -> MakeTopic:
    """A topic with so many records in each partition."""

    def make(name: str, *, partitions: int = 1, records: int = 0) -> str:
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions, 1)])
        with Producer(bootstrap_servers=bootstrap) as producer:
            for partition in range(partitions):
                for number in range(records):
                    timestamp_ms = FIRST_TIMESTAMP_MS + number * 1000
                    producer.send(name, b"v%d" % number, partition=partition, timestamp_ms=timestamp_ms)
            producer.flush()
            assert producer.counts().failed_records == 0
        return name

    return make
