"""One broker for all tests that need a real one, and topics with something in them."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.processes import BrokerProcess


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(
        tmp_path_factory.mktemp("consumer") / "data",
        "group.initial.rebalance.delay.ms=0",
        "group.min.session.timeout.ms=100",
        "auto.create.topics.enable=false",
    ).start()
    yield process
    process.close()


@pytest.fixture
def make_topic(broker: BrokerProcess) -> Callable[..., str]:
    """`make_topic(partitions=1, values=[...] or count=N)`: its name. Values go to partitions in turn."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    def make(partitions: int = 1, count: int = 0, prefix: str = "t", timestamp_ms: int = 0) -> str:
        settings = {"bootstrap.servers": broker.address, "log_level": 0}
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        admin = AdminClient(settings)
        admin.create_topics([NewTopic(name, partitions)])[name].result()
        producer = Producer(settings)
        for number in range(count):
            key = b"k%d" % number
            at = {"timestamp": timestamp_ms + number} if timestamp_ms else {}
            producer.produce(name, b"v%d" % number, key, number % partitions, headers=[("n", b"%d" % number)], **at)
        producer.flush()
        return name

    return make
