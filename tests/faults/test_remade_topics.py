"""A topic that is deleted and made anew: nothing of the old one comes back, nothing of the new one goes."""

from collections.abc import Callable

import pytest

from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.processes import BrokerProcess
from tests.raw_wire import EARLIEST, RawClient, batch_of

pytestmark = pytest.mark.process

StartBroker = Callable[..., BrokerProcess]


def delete_records(client: RawClient, topic: str, offset: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=10_000)
    assert client.ask(request, 2, DeleteRecordsResponse).topics[0].partitions[0].error_code == 0


def delete_topic(client: RawClient, topic: str) -> None:
    answer = client.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5, DeleteTopicsResponse)
    assert answer.responses[0].error_code == 0


def test_acknowledged_records_of_a_topic_made_anew_survive_a_kill(start_broker: StartBroker) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        client.create_topic("orders")
        for _ in range(10):
            assert client.produce("orders", batch_of(*[b"old"] * 100)).error_code == 0
        delete_records(client, "orders", 900)
    broker.restart()  # the stop writes both checkpoints
    assert "orders 0 900" in (broker.data_dir / "log-start-offset-checkpoint").read_text()
    with RawClient(broker.port) as client:
        delete_topic(client, "orders")
        for name in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint"):
            assert "orders" not in (broker.data_dir / name).read_text()
        assert client.create_topic("orders") == 0
        for _ in range(5):
            assert client.produce("orders", batch_of(*[b"new"] * 100)).error_code == 0
    broker.kill()
    broker.start()
    with RawClient(broker.port) as client:
        assert client.list_offset("orders", EARLIEST).offset == 0
        assert client.log_end_offset("orders") == 500
        assert [record.value for record in client.read_all("orders")] == [b"new"] * 500
