"""kafka-python's own integration tests, from its source package, against our broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.broker_process import BrokerProcess
from interop.conftest import new_broker
from interop.kafka_jars import PeerMissingError
from interop.kafka_python_suite import run_suite, suite_dir

# The version whose protocol the tests are told to expect; those for other versions skip themselves.
PROTOCOL_VERSION = "4.3"
# Which version kafka-python takes a broker for, by the APIs and versions that it says it serves.
INFERRED_VERSIONS = {"kafka": "4.3", "ottla": "3.8"}
INFERS_THE_VERSION = "test_kafka_version_infer"

# The tests name broker 0, and ask for sessions of three seconds.
OVERRIDES = {
    "node.id": "0",
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}

# Each with its reason. Not listed are test_sasl_integration.py and test_ssl_integration.py: SASL and SSL.
DESELECTED = {
    "test_create_describe_delete_acls": "ACLs",
    "test_transactional_producer_messages": "transactions",
    "test_transactional_producer_offsets": "transactions",
    INFERS_THE_VERSION: "is run by itself, below",
}
NOT_SERVED_YET = {
    "test_alter_replica_log_dirs": "AlterReplicaLogDirs: replicas cannot be moved between directories",
    "test_describe_metadata_quorum": "DescribeQuorum is about Kafka's own Raft quorum; there is none here",
}

# How many must have run and passed, so that a suite that skips itself does not pass for a good one.
MODULES = [("test_admin_integration", 15), ("test_consumer_integration", 15), ("test_producer_integration", 15)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    try:
        suite_dir()
    except PeerMissingError as missing:
        pytest.skip(str(missing))
    made = new_broker(tmp_path_factory.mktemp("broker") / "data", overrides=OVERRIDES)
    # A test wants to see that it was set, as it is in the settings of kafka-python's own brokers.
    made.overrides["advertised.listeners"] = f"PLAINTEXT://{made.bootstrap}"
    with made as running:
        yield running


@pytest.mark.smoke
@pytest.mark.parametrize(("module", "least_passed"), MODULES)
def test_kafka_python_s_own_tests_pass(broker: BrokerProcess, tmp_path: Path, module: str, least_passed: int) -> None:
    unserved = {} if broker.name == "kafka" else NOT_SERVED_YET
    without = [f"--deselect=test/integration/{module}.py::{name}" for name in {**DESELECTED, **unserved}]
    run = run_suite(broker.port, PROTOCOL_VERSION, f"{module}.py", *without, scratch=tmp_path)
    assert run.failed == [], run.printed[-20_000:]
    assert len(run.passed) >= least_passed, run.printed[-4000:]


def test_kafka_python_infers_the_version_whose_protocol_is_served(broker: BrokerProcess, tmp_path: Path) -> None:
    version = INFERRED_VERSIONS[broker.name]
    run = run_suite(broker.port, version, f"test_consumer_integration.py::{INFERS_THE_VERSION}", scratch=tmp_path)
    assert run.passed == [INFERS_THE_VERSION], run.printed[-4000:]
