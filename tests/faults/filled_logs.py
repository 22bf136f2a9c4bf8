"""Topics with something in them, and what a client reads of them; for tests that break their files."""

from pathlib import Path

from tests.processes import BrokerProcess
from tests.raw_wire import SOME_TIME_MS, RawClient, batch_of


def values_of(port: int, topic: str, *, partition: int = 0, offset: int = 0) -> list[bytes | None]:
    with RawClient(port) as client:
        return [record.value for record in client.read_all(topic, partition=partition, offset=offset)]


def segment_of(broker: BrokerProcess, topic: str) -> Path:
    """The active segment's file."""
    return max(broker.partition_dir(topic).glob("*.log"))


def fill(broker: BrokerProcess, topic: str, *, count: int = 10, **configs: str) -> list[bytes]:
    """Batches of three records each; their values."""
    values = []
    with RawClient(broker.port) as client:
        assert client.create_topic(topic, **configs) == 0
        for number in range(count):
            batch = [b"%s %d %d " % (topic.encode(), number, index) + b"x" * 100 for index in range(3)]
            assert client.produce(topic, batch_of(*batch, timestamp_ms=SOME_TIME_MS + number)).error_code == 0
            values += batch
    return values
