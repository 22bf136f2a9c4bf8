"""Faults of idempotent producers against a running broker: a batch is in the log once, whatever is sent again."""

import time
from collections.abc import Callable

import pytest

from ottla.records.header import MAX_SEQUENCE
from tests.processes import BrokerProcess
from tests.raw_wire import RawClient, batch_of

pytestmark = pytest.mark.process

OUT_OF_ORDER_SEQUENCE = 45
INVALID_PRODUCER_EPOCH = 47


class Producer:
    """Batches of one idempotent producer, numbered by the test."""

    def __init__(self, client: RawClient, topic: str, *, epoch: int = 0, producer_id: int | None = None) -> None:
        self.client = client
        self.topic = topic
        self.epoch = epoch
        self.producer_id = client.new_producer_id() if producer_id is None else producer_id

    def send(self, sequence: int, *values: bytes, epoch: int | None = None) -> tuple[int, int]:
        """Error code and base offset."""
        batch = batch_of(
            *(values or (b"s%d" % sequence,)),
            # A producer is forgotten by the time of its records, not of their arrival.
            timestamp_ms=int(time.time() * 1000),
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
        )
        produced = self.client.produce(self.topic, batch)
        return produced.error_code, produced.base_offset


def test_retry_of_any_of_the_last_five_batches_gets_its_first_offset(client: RawClient, topic: str) -> None:
    producer = Producer(client, topic)
    for number in range(7):
        assert producer.send(number * 2, b"a", b"b") == (0, 1 + number * 2)
    for number in range(2, 7):
        assert producer.send(number * 2, b"a", b"b") == (0, 1 + number * 2)
    assert client.log_end_offset(topic) == 15
    assert producer.send(2, b"a", b"b") == (OUT_OF_ORDER_SEQUENCE, -1)  # older than the last five
    assert producer.send(12, b"a") == (OUT_OF_ORDER_SEQUENCE, -1)  # overlaps one, but is not it
    assert client.log_end_offset(topic) == 15


def test_sequence_gap_is_refused(client: RawClient, topic: str) -> None:
    producer = Producer(client, topic)
    assert producer.send(0) == (0, 1)
    assert producer.send(2) == (OUT_OF_ORDER_SEQUENCE, -1)
    assert producer.send(1) == (0, 2)
    assert producer.send(2) == (0, 3)


def test_producer_without_state_may_start_anywhere(client: RawClient, topic: str) -> None:
    assert Producer(client, topic).send(41) == (0, 1)
    assert Producer(client, topic, producer_id=987_654_321).send(5) == (0, 2)  # an id that this broker never gave


def test_sequence_wraps_at_its_end(client: RawClient, topic: str) -> None:
    producer = Producer(client, topic)
    assert producer.send(MAX_SEQUENCE - 1, b"a", b"b", b"c") == (0, 1)  # ends at sequence 0
    assert producer.send(1) == (0, 4)
    assert producer.send(MAX_SEQUENCE - 1, b"a", b"b", b"c") == (0, 1)
    assert producer.send(0) == (OUT_OF_ORDER_SEQUENCE, -1)
    other = Producer(client, topic)
    assert other.send(MAX_SEQUENCE) == (0, 5)
    assert other.send(0) == (0, 6)


def test_old_producer_epoch_is_refused(client: RawClient, topic: str) -> None:
    producer = Producer(client, topic, epoch=3)
    assert producer.send(0) == (0, 1)
    assert producer.send(1, epoch=2) == (INVALID_PRODUCER_EPOCH, -1)
    assert producer.send(0, epoch=0) == (INVALID_PRODUCER_EPOCH, -1)
    assert producer.send(1) == (0, 2)


def test_new_epoch_has_to_start_at_sequence_0(client: RawClient, topic: str) -> None:
    producer = Producer(client, topic)
    assert producer.send(0) == (0, 1)
    assert producer.send(1, epoch=1) == (OUT_OF_ORDER_SEQUENCE, -1)
    assert producer.send(0, epoch=1) == (0, 2)
    assert producer.send(1, epoch=0) == (INVALID_PRODUCER_EPOCH, -1)


@pytest.mark.parametrize("stop", ["clean stop", "kill"])
def test_retry_after_a_restart_is_still_a_duplicate(start_broker: Callable[..., BrokerProcess], stop: str) -> None:
    broker = start_broker()
    producers: dict[str, Producer] = {}
    with RawClient(broker.port) as client:
        for name in ("kept", "corrupt-snapshot", "cut-snapshot", "no-snapshot"):
            client.create_topic(name, segment_bytes="400")
            producers[name] = Producer(client, name)
            for sequence in range(8):
                assert producers[name].send(sequence, b"x" * 100) == (0, sequence)
    if stop == "kill":
        broker.kill()
    else:
        broker.stop()
    for path in broker.partition_dir("corrupt-snapshot").glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-3] + b"???")
    for path in broker.partition_dir("cut-snapshot").glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-3])
    if stop == "kill":  # after a clean stop, no snapshot says that there were no producers, as in Kafka
        for path in broker.partition_dir("no-snapshot").glob("*.snapshot"):
            path.unlink()
    broker.start()
    with RawClient(broker.port) as client:
        for name, producer in producers.items():
            producer.client = client
            # A snapshot holds the last batch of each producer, in Kafka's format; what is rebuilt knows five.
            known = range(3, 8) if name != "kept" and (stop == "kill" or name != "no-snapshot") else range(7, 8)
            for sequence in known:
                assert producer.send(sequence, b"x" * 100) == (0, sequence), name
            assert producer.send(9) == (OUT_OF_ORDER_SEQUENCE, -1)
            assert producer.send(8) == (0, 8)
            assert client.log_end_offset(name) == 9
    assert "Traceback" not in broker.log


def test_producer_ids_are_not_given_twice_over_a_kill(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    given = []
    for _ in range(3):
        with RawClient(broker.port) as client:
            given += [client.new_producer_id() for _ in range(3)]
        broker.kill()
        broker.start()
    assert len(set(given)) == len(given)
