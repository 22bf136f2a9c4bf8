"""The kernel's short way for records: the same batches as the long way, and every odd call handed over."""

import gc
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.producer.accumulator import Accumulator
from ottla.clients.producer.gate import new_gate
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.producer import Producer
from ottla.clients.producer.settings import ProducerSettings
from ottla.records.kernel import kernel
from ottla.records.read import read_batch

pytestmark = pytest.mark.skipif(not hasattr(kernel, "Gate"), reason="the kernel is not built")

BYTES = st.none() | st.binary(max_size=300)


class Way:
    """A producer's way in, short or long, and what went the long way."""

    def __init__(self, *, is_short: bool, partitions: int = 3, **changes: Any) -> None:
        settings = ProducerSettings(**{"batch_size": 1_000, **changes})
        self.accumulator = Accumulator(settings, now_ms=lambda: 0, wake=lambda: None)
        self.topic = self.accumulator.learn_topic("orders", partitions)
        self.long: list[tuple[Any, ...]] = []
        gate = new_gate(self.accumulator.topics, SendHandle, self._long_way)
        assert gate is not None
        self.send = gate.send if is_short else self._long_way

    def _long_way(self, topic: str, value: Any = None, key: Any = None, **others: Any) -> SendHandle | None:
        self.long.append((topic, value, key, others))
        return self.accumulator.append(self.topic, others.get("partition"), key, value, (), 7)

    def batches(self) -> list[tuple[int, list[tuple[bytes | None, bytes | None]]]]:
        return [
            (
                batch.queue.topic_partition.partition,
                [(record.key, record.value) for record in read_batch(batch.appender.build())[1]],
            )
            for batch in self.accumulator.incomplete
        ]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(BYTES, BYTES), max_size=60))
def test_both_ways_make_the_same_batches(records: list[tuple[bytes | None, bytes | None]]) -> None:
    short, long = Way(is_short=True), Way(is_short=False)
    topic_partitions = []
    for way in (short, long):
        way.topic._random.seed(1)
        topic_partitions.append([])
        for key, value in records:
            handle = way.send("orders", value, key)
            topic_partitions[-1].append((handle._batch.queue.topic_partition, handle._index))
    assert short.batches() == long.batches()
    assert topic_partitions[0] == topic_partitions[1]
    assert len(short.long) <= 2 * len(short.batches()), "only where a batch is opened, or a partition chosen"


def test_named_and_positional_arguments_take_the_short_way() -> None:
    way = Way(is_short=True, partitions=1)
    way.send("orders", b"first")
    for _ in range(2):
        way.send("orders", b"v", b"k")
        way.send("orders", value=b"v", key=b"k")
        way.send("orders", key=b"k", value=None)
        way.send("orders")
    assert len(way.long) == 1


def test_everything_odd_takes_the_long_way_with_its_arguments() -> None:
    way = Way(is_short=True, partitions=1)
    way.send("orders", b"first")
    way.long.clear()
    way.send("orders", b"v", partition=0)
    way.send("orders", b"v", headers=[])
    assert way.long == [("orders", b"v", None, {"partition": 0}), ("orders", b"v", None, {"headers": []})]
    for wrong in ({"value": "text"}, {"key": 5}, {"value": bytearray(b"x"), "key": 1.5}):
        with pytest.raises(TypeError):
            way.send("orders", **wrong)
    with pytest.raises(TypeError):
        way.send("orders", b"v", value=b"w")
    with pytest.raises(TypeError):
        way.send()


def test_a_topic_that_cannot_be_looked_up_is_handed_over() -> None:
    way = Way(is_short=True)
    way.send(["orders"], b"v")
    way.send("other", b"v")
    assert [call[0] for call in way.long] == [["orders"], "other"]


def test_a_closed_batch_takes_nothing_more() -> None:
    way = Way(is_short=True, partitions=1)
    way.send("orders", b"1")
    batch = next(iter(way.accumulator.incomplete))
    way.accumulator.refuse(ZeroDivisionError("closed"))
    with pytest.raises(ZeroDivisionError):
        way.send("orders", b"2")
    assert batch.record_count == 1


def test_keys_can_be_ignored() -> None:
    way = Way(is_short=True, partitions=50, partitioner_ignore_keys=True)
    for number in range(20):
        way.send("orders", b"x", b"%d" % number)
    assert len(way.batches()) == 1
    assert len(way.long) == 1


def test_only_a_batch_with_an_appender_can_be_open() -> None:
    way = Way(is_short=True)
    queue = way.topic.queues[0]
    for wrong in (5, "x"):
        with pytest.raises(AttributeError):
            queue.open = wrong  # type: ignore[assignment]
    queue.open = None
    assert queue.open is None


def test_nothing_is_kept_alive() -> None:
    way = Way(is_short=True, partitions=1)
    value = bytes(50)
    before = sys.getrefcount(value)
    handles = [way.send("orders", value) for _ in range(10)]
    assert sys.getrefcount(value) == before + 1, "the record was copied; what is left is the call to the long way"
    way.long.clear()
    batch = handles[0]._batch
    held = sys.getrefcount(batch)
    handles.clear()
    gc.collect()
    assert sys.getrefcount(batch) == held - 10


def test_a_subclass_with_its_own_send_is_called_for_every_record() -> None:
    class Counting(Producer):
        count = 0

        def send(self, *record: Any, **others: Any) -> Any:
            self.count += 1
            return super().send(*record, **others)

    producer = Counting({"bootstrap.servers": "127.0.0.1:1"})
    producer._core.accumulator.learn_topic("orders", 1)
    for _ in range(3):
        producer.send("orders", b"value")
    producer.close(timeout_ms=0)
    assert producer.count == 3
