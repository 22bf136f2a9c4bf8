"""Fixtures that several rooms' tests share."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.processes import BrokerProcess
from tests.spark_session import put_spark_first
from tests.spark_session import spark as spark  # the fixture, for every room

# A run finds what the last one found: a change is judged by what it changes. OTTLA_EXPLORE=1 looks for new examples.
settings.register_profile("repeatable", derandomize=True, database=None)
settings.register_profile("exploring", print_blob=True)
settings.load_profile("exploring" if os.environ.get("OTTLA_EXPLORE") else "repeatable")

# A shell starts what runs in its background with SIGINT ignored, nohup with SIGHUP, and every process that a test
# starts inherits that: those that a test ends by one of them would never end. A handler is not inherited.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


@pytest.hookimpl(tryfirst=True)  # before xdist looks at groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    put_spark_first(items)


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start brokers with config overrides; all are gone at the end of the test."""
    started: list[BrokerProcess] = []

    def start(*overrides: str, name: str = "data") -> BrokerProcess:
        broker = BrokerProcess(tmp_path / name, *overrides)
        started.append(broker)
        return broker.start()

    yield start
    for broker in started:
        broker.close()


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for a whole module; tests use topics of their own names."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker") / "data").start()
    yield broker
    broker.close()
