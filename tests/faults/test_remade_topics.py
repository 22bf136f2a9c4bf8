"""A topic that is deleted and made anew: nothing of the old one comes back, nothing of the new one goes.

And folders that are not those of the topics there are.
"""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from ottla.core.clock import wall_clock_ms
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


def test_folder_that_was_away_while_its_topic_was_made_anew_is_set_aside(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = start_broker(f"log.dirs={first},{second}", f"ottla.coordination.path={tmp_path}/store.sqlite")
    with RawClient(broker.port) as client:
        client.create_topic("orders", partitions=2)
        for partition in (0, 1):
            assert client.produce("orders", batch_of(b"old"), partition=partition).error_code == 0
    broker.stop()
    second.rename(tmp_path / "unplugged")
    second.write_bytes(b"not a directory")
    broker.start()
    with RawClient(broker.port) as client:
        delete_topic(client, "orders")
        assert client.create_topic("orders", partitions=2) == 0
        for partition in (0, 1):
            assert client.produce("orders", batch_of(b"new"), partition=partition).error_code == 0
    broker.kill()
    second.unlink()
    (tmp_path / "unplugged").rename(second)
    (stale,) = second.glob("orders-?")
    old_records = (stale / f"{0:020d}.log").read_bytes()
    broker.start()
    with RawClient(broker.port) as client:
        for partition in (0, 1):
            assert [record.value for record in client.read_all("orders", partition=partition)] == [b"new"]
    (stray,) = second.glob("orders-*-stray")
    assert (stray / f"{0:020d}.log").read_bytes() == old_records
    assert f"set aside as {stray}" in broker.log
    broker.restart()
    assert stray.is_dir()


def test_refused_start_changes_no_file_and_the_next_one_finds_what_a_kill_left(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = start_broker(f"log.dirs={first},{second}", f"ottla.coordination.path={tmp_path}/store.sqlite")
    with RawClient(broker.port) as client:
        client.create_topic("orders")
        producer_id = client.new_producer_id()
        for number in range(4):
            assert client.produce("orders", numbered(number, producer_id)).error_code == 0
        delete_records(client, "orders", 2)
    broker.restart()  # the deletion of records is in the checkpoint
    broker.kill()
    holder, other = (first, second) if (first / "orders-0").is_dir() else (second, first)
    copytree(holder / "orders-0", other / "orders-0")
    before = files_under(first) | files_under(second)
    with pytest.raises(AssertionError, match=r"orders-0 is in .* and in .*; move the folder that is out of date away"):
        broker.start()
    assert files_under(first) | files_under(second) == before
    rmtree(other / "orders-0")
    broker.start()
    with RawClient(broker.port) as client:
        assert client.list_offset("orders", EARLIEST).offset == 2
        assert [record.value for record in client.read_all("orders", offset=2)] == [b"2", b"3"]
        assert client.produce("orders", numbered(3, producer_id)).base_offset == 3  # a repetition


def numbered(number: int, producer_id: int) -> bytearray:
    now_ms = wall_clock_ms()  # a producer of long ago is forgotten
    return batch_of(
        b"%d" % number, timestamp_ms=now_ms, producer_id=producer_id, producer_epoch=0, base_sequence=number
    )


def files_under(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_folder_that_is_only_named_like_a_partition_is_left_alone(start_broker: StartBroker, tmp_path: Path) -> None:
    foreign = tmp_path / "data" / "run-2026-150114"
    (foreign / "broker").mkdir(parents=True)
    (foreign / "results.json.tmp").write_text("mine")
    broker = start_broker()
    assert broker.stop() == 0
    assert sorted(path.name for path in foreign.rglob("*")) == ["broker", "results.json.tmp"]
    assert f"{foreign}: named like a partition, but holds no file of one; left alone" in broker.log
