"""The kernel's fast path makes the same batches as the slow path, and passes every unusual call on to it."""

import gc
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.producer.accumulator import Accumulator
from ottla.clients.producer.fast_append import new_fast_append
from ottla.clients.producer.handle import SendHandle
from ottla.clients.producer.producer import Producer
from ottla.clients.producer.settings import ProducerSettings
from ottla.records.kernel import kernel
from ottla.records.read import read_batch

pytestmark = pytest.mark.skipif(not hasattr(kernel, "FastAppend"), reason="the kernel is not built")

BYTES = st.none() | st.binary(max_size=300)


class Path:
    """The fast or the slow path into an accumulator, and the calls that the slow path took."""

    def __init__(self, *, is_fast: bool, partitions: int = 3, **changes: Any) -> None:
        settings = ProducerSettings(**{"batch_size": 1_000, **changes})
        self.accumulator = Accumulator(settings, now_ms=lambda: 0, wake=lambda: None)
        self.topic = self.accumulator.learn_topic("orders", partitions)
        self.slow_calls: list[tuple[Any, ...]] = []
        fast_append = new_fast_append(self.accumulator.topics, SendHandle, self._slow_path)
        assert fast_append is not None
        self.send = fast_append.send if is_fast else self._slow_path

    def _slow_path(self, topic: str, value: Any = None, key: Any = None, **others: Any) -> SendHandle | None:
        self.slow_calls.append((topic, value, key, others))
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
def test_both_paths_make_the_same_batches(records: list[tuple[bytes | None, bytes | None]]) -> None:
    fast, slow = Path(is_fast=True), Path(is_fast=False)
    topic_partitions = []
    for path in (fast, slow):
        path.topic._random.seed(1)
        topic_partitions.append([])
        for key, value in records:
            handle = path.send("orders", value, key)
            topic_partitions[-1].append((handle._batch.queue.topic_partition, handle._index))
    assert fast.batches() == slow.batches()
    assert topic_partitions[0] == topic_partitions[1]
    assert len(fast.slow_calls) <= 2 * len(fast.batches()), "only where a batch is opened, or a partition chosen"


def test_named_and_positional_arguments_take_the_fast_path() -> None:
    path = Path(is_fast=True, partitions=1)
    path.send("orders", b"first")
    for _ in range(2):
        path.send("orders", b"v", b"k")
        path.send("orders", value=b"v", key=b"k")
        path.send("orders", key=b"k", value=None)
        path.send("orders")
    assert len(path.slow_calls) == 1


def test_unusual_calls_take_the_slow_path_with_their_arguments() -> None:
    path = Path(is_fast=True, partitions=1)
    path.send("orders", b"first")
    path.slow_calls.clear()
    path.send("orders", b"v", partition=0)
    path.send("orders", b"v", headers=[])
    assert path.slow_calls == [("orders", b"v", None, {"partition": 0}), ("orders", b"v", None, {"headers": []})]
    for wrong in ({"value": "text"}, {"key": 5}, {"value": bytearray(b"x"), "key": 1.5}):
        with pytest.raises(TypeError):
            path.send("orders", **wrong)
    with pytest.raises(TypeError):
        path.send("orders", b"v", value=b"w")
    with pytest.raises(TypeError):
        path.send()


def test_a_topic_that_cannot_be_looked_up_takes_the_slow_path() -> None:
    path = Path(is_fast=True)
    path.send(["orders"], b"v")
    path.send("other", b"v")
    assert [call[0] for call in path.slow_calls] == [["orders"], "other"]


def test_a_closed_batch_takes_nothing_more() -> None:
    path = Path(is_fast=True, partitions=1)
    path.send("orders", b"1")
    batch = next(iter(path.accumulator.incomplete))
    path.accumulator.refuse(ZeroDivisionError("closed"))
    with pytest.raises(ZeroDivisionError):
        path.send("orders", b"2")
    assert batch.record_count == 1


def test_keys_can_be_ignored() -> None:
    path = Path(is_fast=True, partitions=50, partitioner_ignore_keys=True)
    for number in range(20):
        path.send("orders", b"x", b"%d" % number)
    assert len(path.batches()) == 1
    assert len(path.slow_calls) == 1


def test_only_a_batch_with_an_appender_can_be_open() -> None:
    path = Path(is_fast=True)
    queue = path.topic.queues[0]
    for wrong in (5, "x"):
        with pytest.raises(AttributeError):
            queue.open = wrong  # type: ignore[assignment]
    queue.open = None
    assert queue.open is None


def test_nothing_is_kept_alive() -> None:
    path = Path(is_fast=True, partitions=1)
    value = bytes(50)
    before = sys.getrefcount(value)
    handles = [path.send("orders", value) for _ in range(10)]
    assert sys.getrefcount(value) == before + 1, "the record was copied; what is left is the call to the slow path"
    path.slow_calls.clear()
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
