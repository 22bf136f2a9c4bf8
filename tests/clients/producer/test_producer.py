"""The blocking producer on a real broker process: faults under load, bad input, memory, threads."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.clients.errors import BrokerError, ClientError, TimedOut
from ottla.clients.producer.errors import (
    BufferExhausted,
    InvalidTransactionState,
    NoSuchPartition,
    ProducerClosed,
    RecordTooLarge,
    SerializationFailed,
)
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.interceptors import ProducerRecord
from ottla.clients.producer.producer import Producer
from ottla.records.header import read_header
from ottla.records.read import read_batch
from tests.processes import BrokerProcess

pytestmark = pytest.mark.process
UNREACHABLE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("broker") / "data").start()
    yield running
    running.close()


def stored_values(broker: BrokerProcess, topic: str, partition: int = 0) -> list[bytes | None]:
    """What is in a partition, read from its files."""
    values: list[bytes | None] = []
    for path in sorted(broker.partition_dir(topic, partition).glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position < len(data) and read_header(data, position).batch_length > 0:
            header, records = read_batch(data, position)
            values += [record.value for record in records]
            position += header.size_bytes
    return values


def send_many(producer: Producer, count: int) -> None:
    for _ in range(count):
        producer.send("orders", b"x" * 1_000)


def test_a_record_comes_to_its_place(broker: BrokerProcess) -> None:
    with Producer({"bootstrap.servers": broker.address}) as producer:
        handle = producer.send("orders", value=b"v", key=b"k", headers=[("h", b"1")], partition=0, timestamp_ms=77)
        assert handle.result(10) == ("orders", 0, 0, 77)
        assert handle.done()
        assert [info.partition for info in producer.partitions_for("orders")] == [0]


def test_leaving_the_block_delivers_everything(broker: BrokerProcess) -> None:
    with Producer(bootstrap_servers=broker.address, linger_ms=10_000, request_timeout_ms=5_000) as producer:
        handles = [producer.send("left", b"%d" % number) for number in range(100)]
    assert [handle.result(0).offset for handle in handles] == list(range(100))


def test_callbacks_run_before_flush_returns_and_may_send_again(broker: BrokerProcess) -> None:
    seen: list[int] = []
    with Producer(bootstrap_servers=broker.address) as producer:

        def again(handle: SendHandle) -> None:
            seen.append(handle.result(0).offset)
            if len(seen) == 1:
                producer.send("called", b"again", on_delivery=again)

        def broken(handle: SendHandle) -> None:
            raise ZeroDivisionError

        producer.send("called", b"first", on_delivery=again).add_callback(broken)
        producer.flush(10_000)
        producer.flush(10_000)
    assert seen == [0, 1]


def test_waiting_inside_a_callback_is_an_error_and_no_deadlock(broker: BrokerProcess) -> None:
    errors: list[Exception] = []
    with Producer(bootstrap_servers=broker.address) as producer:

        def wait(handle: SendHandle) -> None:
            try:
                producer.flush()
            except ClientError as error:
                errors.append(error)

        producer.send("waits", b"x", on_delivery=wait).result(10)
        producer.flush(10_000)
    assert "can't be called in a callback" in str(errors[0])


def test_nothing_is_lost_or_twice_when_the_broker_is_killed_under_load(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    count = 30_000
    try:
        with Producer(bootstrap_servers=broker.address, batch_size=2_000, linger_ms=1, retry_backoff_ms=20) as producer:
            handles: list[SendHandle] = [producer.send("killed", b"start")]
            handles[0].result(10)
            enough = threading.Semaphore(0)

            def send_all() -> None:
                for number in range(1, count):
                    handles.append(producer.send("killed", b"%d" % number))
                    if number % 5_000 == 0:
                        # Not far ahead of the broker, so that it is killed in the middle of things.
                        handles[number - 2_500].result(30)
                        enough.release()

            sender = threading.Thread(target=send_all)
            sender.start()
            for _ in range(2):
                enough.acquire(timeout=30)
                broker.kill()
                broker.start()
            sender.join(timeout=60)
            producer.flush(60_000)
        assert [handle.result(0).offset for handle in handles] == list(range(count))
        broker.stop()
        assert stored_values(broker, "killed") == [b"start", *(b"%d" % number for number in range(1, count))]
    finally:
        broker.close()


def test_many_threads_share_a_producer(broker: BrokerProcess) -> None:
    with Producer(bootstrap_servers=broker.address) as producer:

        def send(thread: int) -> None:
            for number in range(500):
                producer.send("shared", b"%d-%d" % (thread, number))

        threads = [threading.Thread(target=send, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(20_000)
    values = stored_values(broker, "shared")
    assert len(values) == 2_000
    for thread in range(4):
        mine = [value for value in values if value is not None and value.startswith(b"%d-" % thread)]
        assert mine == [b"%d-%d" % (thread, number) for number in range(500)]


def test_a_batch_above_the_brokers_limit_is_split_and_a_record_is_refused(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", "message.max.bytes=3000").start()
    try:
        with Producer(bootstrap_servers=broker.address, linger_ms=50) as producer:
            handles = [producer.send("small", b"x" * 200) for _ in range(100)]
            large = producer.send("small", b"x" * 5_000)
        assert [handle.result(0).offset for handle in handles] == list(range(100))
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            large.result(0)
        assert large.topic_partition == ("small", 0)
        counts = producer.counts()
        assert (counts.stored_records, counts.failed_records) == (100, 1)
        assert counts.first_failure is large.exception(0)
    finally:
        broker.close()


def test_a_record_above_max_request_size_is_refused_by_send(broker: BrokerProcess) -> None:
    with Producer(bootstrap_servers=broker.address, max_request_size=10_000) as producer:
        with pytest.raises(RecordTooLarge, match=r"orders: a record of about .* at most 10000 are allowed; raise"):
            producer.send("orders", b"x" * 20_000)
        producer.send("orders", b"fits").result(10)


def test_what_is_no_bytes_is_refused_with_what_to_do(broker: BrokerProcess) -> None:
    with Producer(bootstrap_servers=broker.address) as producer:
        with pytest.raises(SerializationFailed, match=r"the value is a str, expected bytes; .* set value.serializer"):
            producer.send("orders", "text")
        with pytest.raises(SerializationFailed, match="the key is a int"):
            producer.send("orders", b"x", key=5)
        with pytest.raises(SerializationFailed, match="a header's name is a int"):
            producer.send("orders", b"x", headers=[(1, b"x")])
        with pytest.raises(SerializationFailed, match="headers must be pairs"):
            producer.send("orders", b"x", headers=[5])
        with pytest.raises(NoSuchPartition, match="orders: no partition 9, it has 1"):
            producer.send("orders", b"x", partition=9)
        with pytest.raises(SerializationFailed, match="topic 5: expected a name"):
            producer.send(5, b"x")  # type: ignore[arg-type]
        producer.send("orders", bytearray(b"x"), key=memoryview(b"k")).result(10)


def test_serializers_and_interceptors_see_every_record(broker: BrokerProcess) -> None:
    class Watcher:
        def __init__(self) -> None:
            self.offsets: list[int] = []

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(value=record.value + "!")

        def on_acknowledgement(self, handle: SendHandle) -> None:
            self.offsets.append(handle.result(0).offset)

    watcher = Watcher()
    with Producer(
        {"bootstrap.servers": broker.address, "key.serializer": "IntegerSerializer"},
        value_serializer=lambda topic, data: data.encode(),
        interceptor_classes=[watcher],
    ) as producer:
        producer.send("serialized", "text", key=7).result(10)
        with pytest.raises(SerializationFailed, match="the key, a str, was not serialized"):
            producer.send("serialized", "text", key="x")
    assert stored_values(broker, "serialized") == [b"text!"]
    assert watcher.offsets == [0]


def test_a_closed_producer_says_so(broker: BrokerProcess) -> None:
    producer = Producer(bootstrap_servers=broker.address)
    producer.send("orders", b"x")
    producer.close()
    producer.close()
    for topic in ("orders", "new"):
        with pytest.raises(ProducerClosed, match="the producer is closed"):
            producer.send(topic, b"x")


def test_a_topic_that_is_not_there_is_named_in_time(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", "auto.create.topics.enable=false").start()
    try:
        with (
            Producer(bootstrap_servers=broker.address, max_block_ms=300) as producer,
            pytest.raises(TimedOut, match=r"topic nowhere: not known after 300 ms: .*UNKNOWN_TOPIC_OR_PARTITION"),
        ):
            producer.send("nowhere", b"x")
        with (
            Producer(bootstrap_servers=broker.address) as producer,
            pytest.raises(TimedOut, match="not known after 50 ms"),
        ):
            producer.partitions_for("nowhere", timeout_ms=50)
    finally:
        broker.close()


def test_an_unreachable_cluster_is_named_in_time() -> None:
    with (
        Producer(bootstrap_servers=UNREACHABLE, max_block_ms=300) as producer,
        pytest.raises(TimedOut, match=r"topic orders: not known after 300 ms: .*127\.0\.0\.1:1"),
    ):
        producer.send("orders", b"x")


def test_memory_that_is_used_up_holds_send_for_max_block_ms(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    try:
        producer = Producer(
            bootstrap_servers=broker.address, buffer_memory=100_000, batch_size=10_000, max_block_ms=300
        )
        producer.send("orders", b"x").result(10)
        broker.kill()
        with pytest.raises(BufferExhausted, match=r"orders: no room for a record after 300 ms: .* of 100000 bytes"):
            send_many(producer, 200)
        broker.start()
        handle = producer.send("orders", b"last")
        producer.flush(30_000)
        assert handle.result(0).offset > 50
        producer.close()
    finally:
        broker.close()


def test_closing_without_a_cluster_gives_up_in_time(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    try:
        producer = Producer(bootstrap_servers=broker.address)
        producer.send("orders", b"x").result(10)
        broker.kill()
        handle = producer.send("orders", b"y")
        with pytest.raises(TimedOut, match="flush: 1 of 1 batches not done"):
            producer.flush(50)
        producer.close(timeout_ms=50)
        with pytest.raises(ProducerClosed):
            handle.result(0)
    finally:
        broker.close()


def test_transactions_need_an_id(broker: BrokerProcess) -> None:
    with (
        Producer(bootstrap_servers=broker.address) as producer,
        pytest.raises(InvalidTransactionState, match=r"init_transactions: the producer has no transactional\.id"),
    ):
        producer.init_transactions()
