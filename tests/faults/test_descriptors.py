"""A broker with few descriptors: neither connections nor partitions can take what its files need."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.protocol.fetch_codec import FetchPartition
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import ConnectionEnded, RawClient, batch_of, fetch_arguments, read_records

pytestmark = pytest.mark.process

OPEN_FILES_MAX = 256


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One that may open 256 files."""
    broker = BrokerProcess(tmp_path / "data")
    broker.before_exec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES_MAX, OPEN_FILES_MAX))
    yield broker.start()
    broker.close()


def connect_idle(broker: BrokerProcess, stack: ExitStack, count: int) -> list[socket.socket]:
    return [stack.enter_context(socket.create_connection(("127.0.0.1", broker.port))) for _ in range(count)]


def test_idle_connections_leave_the_broker_its_files(broker: BrokerProcess) -> None:
    with RawClient(broker.port) as client, ExitStack() as stack:
        connect_idle(broker, stack, 300)
        eventually(lambda: "limit reached: open files" in broker.log)
        assert client.create_topic("idle") == 0, "files are opened for it"
        for number in range(20):
            assert client.produce("idle", batch_of(b"%d" % number)).error_code == 0
        assert [record.value for record in client.read_all("idle")] == [b"%d" % number for number in range(20)]
        stack.close()

        def is_served_again() -> bool:
            try:
                with RawClient(broker.port) as newcomer:
                    return newcomer.log_end_offset("idle") == 20
            except (ConnectionEnded, OSError):  # closed at once, as long as too many are open
                return False

        eventually(is_served_again)
    assert "offline" not in broker.log
    assert broker.stop() == 0


@pytest.mark.slow
def test_more_partitions_than_descriptors_are_written_and_read(broker: BrokerProcess) -> None:
    partitions = 200
    with RawClient(broker.port) as client, ExitStack() as stack:
        assert client.create_topic("many", partitions=partitions) == 0
        connect_idle(broker, stack, 120)
        for partition in range(partitions):
            assert client.produce("many", batch_of(b"%d" % partition), partition=partition).error_code == 0
        wanted = {partition: FetchPartition(partition, -1, 0, -1, -1, 1024) for partition in range(partitions)}
        read: dict[int, bytes] = {}
        for _ in range(partitions):
            client.send_fetch(fetch_arguments("many", 0)._replace(topics=[("many", list(wanted.values()))]))
            for _, answers in client.receive_fetched().topics:
                for fetched in answers:
                    assert fetched.error_code == 0
                    for record in read_records(fetched):
                        read[fetched.partition] = record.value or b""
                        del wanted[fetched.partition]
            if not wanted:
                break
        assert read == {partition: b"%d" % partition for partition in range(partitions)}
    assert "offline" not in broker.log
    assert broker.stop() == 0
