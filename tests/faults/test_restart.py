"""A broker that stops or is killed: what was acknowledged is there, and nothing is there twice.

Kills under load, as far as one broker shows them, and the promises of a clean stop.
"""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.records.header import BatchHeader, iter_headers
from ottla.records.read import read_batch
from tests.faults.filled_logs import fill, segment_of, values_of
from tests.processes import BrokerProcess
from tests.raw_wire import ConnectionEnded, RawClient, batch_of, fetch_arguments

pytestmark = pytest.mark.process

StartBroker = Callable[..., BrokerProcess]

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"


def test_clean_stop_leaves_its_marker_and_the_next_start_reads_no_segment(start_broker: StartBroker) -> None:
    broker = start_broker()
    values = fill(broker, "kept")
    assert not (broker.data_dir / CLEAN_SHUTDOWN_FILE).exists()
    assert broker.stop() == 0
    assert (broker.data_dir / CLEAN_SHUTDOWN_FILE).exists()
    # A bit flipped in an early batch: recovery would cut the log there, a start that skips recovery can't notice.
    segment = segment_of(broker, "kept")
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    broker.start()
    assert not (broker.data_dir / CLEAN_SHUTDOWN_FILE).exists()  # a crash from now on counts as one
    assert values_of(broker.port, "kept", offset=3) == values[3:]


def test_files_of_a_clean_stop_are_the_same_after_the_next(start_broker: StartBroker) -> None:
    broker = start_broker()
    fill(broker, "same", segment_bytes="2000")
    broker.stop()
    before = {path.name: path.read_bytes() for path in broker.partition_dir("same").iterdir()}
    broker.start()
    broker.stop()
    assert {path.name: path.read_bytes() for path in broker.partition_dir("same").iterdir()} == before


def test_stop_while_logs_are_being_flushed_leaves_no_log_half_done(start_broker: StartBroker) -> None:
    broker = start_broker()
    partitions = range(12)
    with RawClient(broker.port) as client:
        client.create_topic("flushed", partitions=len(partitions), flush_messages="1")
        for partition in partitions:
            client.send_produce("flushed", batch_of(b"x"), partition=partition, acks=0)
        client.log_end_offset("flushed")  # answered after them: all are appended
        # Their fsyncs are under way, or wait; nobody is owed an answer that would hold the stop.
        assert broker.stop() == 0
    assert (broker.data_dir / CLEAN_SHUTDOWN_FILE).exists()
    folders = [broker.partition_dir("flushed", partition) for partition in partitions]
    assert [folder for folder in folders if not (folder / "leader-epoch-checkpoint").exists()] == []


def test_topics_configs_and_offsets_live_through_restarts(start_broker: StartBroker) -> None:
    broker = start_broker()
    values = fill(broker, "lived", segment_bytes="2000")
    for stop in (broker.stop, broker.kill, broker.stop):
        stop()
        broker.start()
        assert values_of(broker.port, "lived") == values
        with RawClient(broker.port) as client:
            value = b"after restart %d" % len(values)
            assert client.produce("lived", batch_of(value)).base_offset == len(values)
            values.append(value)
    assert len(list(broker.partition_dir("lived").glob("*.log"))) > 2  # the config is still in force


class Load(threading.Thread):
    """One idempotent producer that sends pipelined batches until its connection breaks."""

    def __init__(self, port: int, topic: str, partition: int, *, acks: int, pause_after: int) -> None:
        super().__init__(daemon=True)
        self.client = RawClient(port)
        self.topic = topic
        self.partition = partition
        self.acks = acks
        self.producer_id = self.client.new_producer_id()
        self.acked: dict[int, int] = {}  # batch number -> first offset
        self.sent = 0
        self.has_acks = threading.Event()
        self._pause_after = pause_after

    def batch(self, number: int) -> bytearray:
        values = [b"producer %d batch %d record %d" % (self.producer_id, number, index) for index in range(3)]
        return batch_of(*values, producer_id=self.producer_id, producer_epoch=0, base_sequence=number * 3)

    def run(self) -> None:
        try:
            for _ in range(5):
                self._send()
            while True:
                _, produced = self.client.receive_produced()
                assert produced.error_code == 0
                self.acked[len(self.acked)] = produced.base_offset
                if len(self.acked) == self._pause_after:
                    self.has_acks.set()
                self._send()
        except (ConnectionEnded, BrokenPipeError, ConnectionResetError):
            self.client.close()

    def _send(self) -> None:
        self.client.send_produce(self.topic, self.batch(self.sent), partition=self.partition, acks=self.acks)
        self.sent += 1


def batches_of(client: RawClient, topic: str, partition: int) -> list[BatchHeader]:
    """The headers of the whole partition; every batch is read to its last record."""
    headers: list[BatchHeader] = []
    offset = 0
    while True:
        fetched = client.fetch(topic, offset, partition=partition)
        if offset >= fetched.high_watermark:
            return headers
        data = bytes(fetched.records)  # type: ignore[arg-type]
        for position, header in iter_headers(data, allow_partial_tail=True):
            if header.base_offset >= offset:
                assert len(read_batch(data, position)[1]) == header.record_count
                headers.append(header)
        offset = headers[-1].next_offset


@pytest.mark.parametrize(("acks", "flush_messages"), [(1, None), (-1, None), (-1, "1"), (1, "1")])
def test_killed_under_load_keeps_what_it_acked_and_nothing_twice(
    start_broker: StartBroker, acks: int, flush_messages: str | None
) -> None:
    broker = start_broker("log.flush.offset.checkpoint.interval.ms=20")
    configs = {} if flush_messages is None else {"flush_messages": flush_messages}
    with RawClient(broker.port) as client:
        assert client.create_topic("load", partitions=2, **configs) == 0
    loads = [Load(broker.port, "load", number % 2, acks=acks, pause_after=150) for number in range(4)]
    for load in loads:
        load.start()
    for load in loads:
        assert load.has_acks.wait(30)
    broker.kill()
    for load in loads:
        load.join(30)
        assert not load.is_alive()
    broker.start()
    with RawClient(broker.port) as client:
        before_retry = {partition: batches_of(client, "load", partition) for partition in (0, 1)}
        for load in loads:
            found = _numbers_by_offset(before_retry[load.partition], load)
            for number, offset in load.acked.items():
                assert found[offset] == number, "an acked batch is not where it was acked"
            assert sorted(found.values()) == list(range(len(found)))  # no gap, none twice
            # Whatever was never acked is sent again: it is a duplicate or new, never both.
            for number in range(max(len(load.acked), load.sent - 5), load.sent):
                produced = client.produce("load", load.batch(number), partition=load.partition)
                assert produced.error_code == 0
        for load in loads:
            found = _numbers_by_offset(batches_of(client, "load", load.partition), load)
            assert sorted(found.values()) == list(range(load.sent))
            assert [number for _, number in sorted(found.items())] == list(range(load.sent))


def _numbers_by_offset(headers: list[BatchHeader], load: Load) -> dict[int, int]:
    return {
        header.base_offset: header.base_sequence // 3 for header in headers if header.producer_id == load.producer_id
    }


def test_killed_again_and_again_loses_nothing(start_broker: StartBroker) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        client.create_topic("again", segment_bytes="3000")
    values = []
    for round_number in range(4):
        with RawClient(broker.port) as client:
            for number in range(20):
                value = b"%d %d " % (round_number, number) + b"x" * 90
                assert client.produce("again", batch_of(value), acks=1).base_offset == len(values)
                values.append(value)
        broker.kill()
        broker.start()
        assert values_of(broker.port, "again") == values


def test_second_broker_on_the_same_directory_is_refused_with_words(start_broker: StartBroker) -> None:
    broker = start_broker()
    second = BrokerProcess(broker.data_dir)
    second.log_path = broker.data_dir.with_name("second.log")
    with pytest.raises(AssertionError, match="did not start"):
        second.start()
    second.close()
    assert second.process is not None
    assert second.process.returncode != 0
    assert str(broker.data_dir) in second.log
    assert "lock" in second.log or "another" in second.log
    assert "Traceback" not in second.log
    with RawClient(broker.port) as client:
        assert client.create_topic("still-served") == 0


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("cluster.id=", "cluster.id=another", "belongs to cluster"),
        ("broker.id=1", "broker.id=9", "belongs to broker 9"),
    ],
)
def test_directory_of_another_cluster_or_broker_is_refused_with_words(
    start_broker: StartBroker, old: str, new: str, word: str
) -> None:
    broker = start_broker()
    broker.stop()
    path = broker.data_dir / "meta.properties"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(AssertionError, match="did not start"):
        broker.start()
    assert word in broker.log
    assert "Traceback" not in broker.log
    path.write_text(text, encoding="utf-8")
    broker.start()


def test_port_that_is_taken_is_refused_with_words(start_broker: StartBroker, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        broker = BrokerProcess(tmp_path / "unlucky", port=other.getsockname()[1])
        with pytest.raises(AssertionError, match="can't listen there"):
            broker.start()
        broker.close()
    assert "Traceback" not in broker.log


def test_stop_does_not_wait_for_long_polls(start_broker: StartBroker) -> None:
    broker = start_broker()
    fill(broker, "polled", count=1)
    with RawClient(broker.port, timeout_s=20) as client:
        client.send_fetch(fetch_arguments("polled", 3, max_wait_ms=300_000))
        assert broker.stop() == 0  # within the 30 s that stop waits
