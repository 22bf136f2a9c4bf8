"""Strange and hostile calls to the kernel's Python types, for a build with sanitizers: FastAppend, appenders, columns.

Run by test_kernel_fuzz.py and `make fuzz-kernel`, which build the extension with the address and undefined-behaviour
sanitizers: kernel_objects_fuzz.py EXTENSION ROUNDS SEED. What was taken is held against what was sent, in Python.
"""

import gc
import importlib.util
import random
import sys
import threading
from array import array
from types import ModuleType
from typing import Any

from ottla.records.errors import CorruptBatch
from ottla.records.header import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader
from ottla.records.read import read_records

EDGES = (0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**63, 10**30)
REFUSALS = (TypeError, ValueError, OverflowError, BufferError, RuntimeError, AttributeError, KeyError, IndexError)


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("_kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Text(str):
    """A topic's name that is no plain str."""


class Hostile:
    """Fails whoever asks it anything."""

    def __hash__(self) -> int:
        raise KeyError("no hash")

    def __eq__(self, other: object) -> bool:
        raise ValueError("not comparable")

    def __len__(self) -> int:
        raise IndexError("no length")


class Batch:
    def __init__(self, appender: Any) -> None:
        self.appender = appender
        self.sent: list[tuple[bytes | None, bytes | None]] = []


class Fuzz:
    def __init__(self, kernel: Any, seed: int) -> None:
        self.kernel = kernel
        self.random = random.Random(seed)
        self.accepted = 0
        self.kept: list[Any] = []

        class Handle(kernel.Delivery):  # type: ignore[misc]
            __slots__ = ("note",)

        class Queue(kernel.PartitionSlot):  # type: ignore[misc]
            pass

        class Queues(kernel.TopicSlots):  # type: ignore[misc]
            pass

        self.handle_class, self.queue_class, self.queues_class = Handle, Queue, Queues

    def data(self) -> bytes | None:
        size = self.random.choice((0, 1, 3, 4, 7, 60, 63, 64, 127, 128, 300, 5000))
        return None if self.random.random() < 0.2 else self.random.randbytes(size)

    def anything(self) -> Any:
        choices: tuple[Any, ...] = (
            None, b"", b"bytes", bytearray(b"array"), memoryview(b"view"), memoryview(b"0123456789")[::2],
            array("d", [1.5]), "text", Text("t"), 7, -1, 1.5, object(), (), [], {}, Hostile(), self.kernel.Appender(9),
        )  # fmt: skip
        return self.random.choice(choices)

    def number(self) -> int:
        return self.random.choice(EDGES) if self.random.random() < 0.5 else self.random.randrange(2**40)

    def batch(self) -> Batch:
        return Batch(self.kernel.Appender(self.random.choice((0, 61, 100, 1000, 20_000))))

    def check(self, batch: Batch) -> None:
        """What lies in it is what was sent, in that order."""
        appender = batch.appender
        body = appender.records()
        assert appender.record_count == len(batch.sent), (appender.record_count, len(batch.sent))
        assert appender.size_bytes == 61 + len(body)
        header = BatchHeader(
            0, 0, 0, 2, 0, 0, len(batch.sent) - 1, appender.base_timestamp_ms, appender.max_timestamp_ms,
            -1, NO_PRODUCER_EPOCH, NO_SEQUENCE, len(batch.sent),
        )  # fmt: skip
        assert [(record.key, record.value) for record in read_records(header, body)] == batch.sent

    # FastAppend.

    def send(self) -> None:
        topics: dict[Any, Any] = {}
        batches: list[Batch] = []
        slow_calls: list[tuple[Any, ...]] = []

        def opened() -> Batch:
            batch = self.batch()
            batches.append(batch)
            return batch

        def slow(*arguments: Any, **named: Any) -> Any:
            slow_calls.append((arguments, named))
            if self.random.random() < 0.2:
                raise KeyError("the slow path has its own mistakes")
            self.stir(topics, opened)
            return slow_calls

        fast_append = self.kernel.FastAppend(topics, self.handle_class, slow)
        self.stir(topics, opened)
        for _ in range(self.random.randrange(40)):
            arguments, named = self.call()
            calls = len(slow_calls)
            try:
                answer = fast_append.send(*arguments, **named)
            except KeyError:
                continue
            if len(slow_calls) > calls:
                assert answer is slow_calls
                assert slow_calls[-1][0] == arguments
                continue
            assert type(answer) is self.handle_class
            value = named.get("value", arguments[1] if len(arguments) > 1 else None)
            key = named.get("key", arguments[2] if len(arguments) > 2 else None)
            batch = answer._batch
            assert answer._index == len(batch.sent)
            batch.sent.append((key, value))
            self.accepted += 1
            if self.random.random() < 0.3:
                self.kept.append(answer)
            if self.random.random() < 0.2:
                self.stir(topics, opened)
        for batch in batches:
            self.check(batch)

    def call(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        topic = self.random.choice(("a", "b", "missing", Text("a"), "a" * 1)) if self.random.random() < 0.95 else 7
        value = self.data() if self.random.random() < 0.9 else self.anything()
        key = self.data() if self.random.random() < 0.9 else self.anything()
        match self.random.randrange(6):
            case 0:
                return (topic, value), {}
            case 1:
                return (topic, value, key), {}
            case 2:
                return (topic,), {"value": value, "key": key}
            case 3:
                return (topic, value), {"key": key}
            case 4:
                return (topic, value, key, (), 0, self.number()), {}
            case _:
                return (topic, value), {self.random.choice(("value", "headers", "partition", "nonsense")): key}

    def stir(self, topics: dict[Any, Any], opened: Any) -> None:
        """Open and close batches, and assign to the slots what doesn't belong there."""
        for name in ("a", "b"):
            if name not in topics or self.random.random() < 0.1:
                topics[name] = self.queues_class()
            slots = topics[name]
            if not isinstance(slots, self.queues_class):
                topics[name] = slots = self.queues_class()
            queues = [self.queue_class() for _ in range(self.random.randrange(4))]
            for queue in queues:
                if self.random.random() < 0.8:
                    queue.open = opened()
                if self.random.random() < 0.1:
                    self.refused(lambda queue=queue: setattr(queue, "open", self.anything()))
            slots.queues = queues if self.random.random() < 0.9 else self.random.choice(([object(), 1], (), None, 5))
            slots.sticky = queues[0] if queues and self.random.random() < 0.8 else self.anything()
            slots.ignores_keys = self.random.random() < 0.3
        if self.random.random() < 0.05:
            topics["a"] = self.anything()

    def refused(self, call: Any) -> None:
        try:
            call()
        except REFUSALS:
            pass

    # Appenders.

    def append(self) -> None:
        batch = self.batch()
        appender = batch.appender
        fuzz = self

        class Reentrant(list):  # type: ignore[type-arg]
            """Headers that come back to the appender while it reads them."""

            def __getitem__(self, index: Any) -> Any:
                fuzz.refused(lambda: appender.append(1, b"k", b"v"))
                fuzz.refused(appender.records)
                if fuzz.random.random() < 0.3:
                    self.clear()
                return super().__getitem__(index)

        for _ in range(self.random.randrange(12)):
            key, value = self.data(), self.data()
            pairs: list[Any] = [("name", self.data()) for _ in range(self.random.randrange(4))]
            choice = self.random.random()
            try:
                if choice < 0.5:
                    index = appender.append(self.random.randrange(2**42), key, value, pairs)
                elif choice < 0.7:
                    index = appender.append(self.number(), self.anything(), self.anything(), self.anything())
                    if index >= 0:
                        return  # strange, but bytes: what they were is not remembered
                    continue
                else:
                    index = appender.append(5, key, value, Reentrant(pairs))
            except REFUSALS:
                continue
            if index >= 0:
                assert index == len(batch.sent)
                batch.sent.append((key, value))
        self.check(batch)

    def append_rows(self) -> None:
        appender = self.kernel.Appender(self.random.choice((0, 100, 10_000, 300_000)))
        rows = array("q", [self.random.choice((0, 1, 2, -1, 9, 2**62)) for _ in range(self.random.randrange(6))])
        times = array("q", [self.random.randrange(2**42) for _ in range(self.random.randrange(4))])
        columns = [self.column() for _ in range(5)]
        headers = tuple(columns[2:]) if self.random.random() < 0.5 else None
        first = self.random.choice((0, 1, 5, -1, 2**40))
        self.refused(lambda: appender.append_rows(rows, first, times, columns[0], columns[1], headers))
        self.refused(lambda: appender.append_rows(*(self.anything() for _ in range(6))))
        self.refused(lambda: self.kernel.hash_keys(columns[0], self.random.choice((0, 1, 3, 9, -1, 2**40))))
        appender.records()

    def column(self) -> Any:
        if self.random.random() < 0.1:
            return None if self.random.random() < 0.5 else self.anything()
        ends = sorted(self.random.randrange(12) for _ in range(self.random.randrange(6)))
        if self.random.random() < 0.2:
            ends.append(self.random.choice((-1, 2**31 - 1, 50)))
        validity = self.random.choice((None, b"", b"\xff", b"\x05"))
        return (
            array("i", ends),
            b"0123456789",
            validity,
            self.random.choice((0, 1, -1)),
            self.random.choice((0, 3, 9)),
        )

    # Columns, whose memory is used again.

    def columns(self) -> None:
        sink = self.kernel.ColumnSink(self.random.random() < 0.5)
        # Nothing just below 2 GiB: it would be reserved, and watched.
        self.refused(lambda: sink.reserve(self.random.choice((0, -1, 1_000, 2**31, 2**63 - 1, 2**70)), self.number()))
        if self.random.random() < 0.7:
            size = 3_000_000 if self.random.random() < 0.02 else self.random.choice((0, 100, 5_000, 60_000))
            sink.reserve(size, self.random.choice((-5, 0, 10, 10**9)))
        total = 0
        for _ in range(self.random.randrange(4)):
            batch = self.batch()
            for _ in range(self.random.randrange(20)):
                key, value = self.data(), self.data()
                if batch.appender.append(5, key, value) >= 0:
                    batch.sent.append((key, value))
            count = len(batch.sent)
            total += sink.append(batch.appender.records(), 0, 0, None, count - 1, count, 0, 2**62)
        finished = sink.finish()
        assert finished[0] == total
        for part in (finished[1], finished[2], *finished[3], *finished[4]):
            if part is not None:
                bytes(memoryview(part))
        self.kept.append(finished)

    # Walks.

    def walk(self) -> None:
        batch = self.batch()
        for _ in range(self.random.randrange(20)):
            key, value = self.data(), self.data()
            if batch.appender.append(self.random.randrange(2**42), key, value) >= 0:
                batch.sent.append((key, value))
        body = bytearray(self.random.randrange(3)) + batch.appender.records()
        start = len(body) - len(batch.appender.records())
        count = len(batch.sent)
        walked = self.kernel.walk_records(memoryview(body), start, count, batch.appender.base_timestamp_ms, True)
        assert walked[1] == (batch.appender.max_timestamp_ms if count else -1)
        assert walked[2] == [index for index, (key, _) in enumerate(batch.sent) if key is None]
        for _ in range(4):
            if len(body) > start:
                body[self.random.randrange(start, len(body))] = self.random.randrange(256)
            damaged = self.random.choice((bytes(body), body, memoryview(body), memoryview(body)[::2], self.anything()))
            position = self.random.choice((start, 0, -1, len(body), len(body) + 1, self.number()))
            wanted = self.random.choice((count, self.number()))
            try:
                self.kernel.walk_records(damaged, position, wanted, self.number(), self.random.random() < 0.5)
            except (CorruptBatch, *REFUSALS):
                pass
        self.refused(lambda: self.kernel.walk_records(*(self.anything() for _ in range(self.random.randrange(7)))))

    # Several threads.

    def threads(self) -> None:
        slots = self.queues_class()
        queue = self.queue_class()
        slots.queues, slots.sticky, slots.ignores_keys = [queue], queue, False
        topics = {"t": slots}
        done: list[Any] = []
        fast_append = self.kernel.FastAppend(topics, self.handle_class, lambda *arguments: None)
        batches = [Batch(self.kernel.Appender(5_000)) for _ in range(20)]

        def send() -> None:
            for number in range(400):
                handle = fast_append.send("t", b"%d" % number, None if number % 2 else b"key")
                if handle is not None:
                    done.append(handle)

        senders = [threading.Thread(target=send) for _ in range(3)]
        for sender in senders:
            sender.start()
        for batch in batches:
            queue.open = batch
            done.append(fast_append.send("t", b"opened"))
        queue.open = None
        for sender in senders:
            sender.join()
        places = [(id(handle._batch), handle._index) for handle in done if handle is not None]
        assert len(set(places)) == len(places) == sum(batch.appender.record_count for batch in batches)

    def run(self, rounds: int) -> None:
        tasks = (self.send, self.append, self.append_rows, self.columns, self.walk)
        for number in range(rounds):
            self.random.choice(tasks)()
            if number % 500 == 0:
                self.threads()
            if len(self.kept) > 50:
                self.random.shuffle(self.kept)
                del self.kept[self.random.randrange(50) :]
            if number % 200 == 0:
                gc.collect()
        self.refused(lambda: self.kernel.FastAppend({}, object, None))
        self.refused(lambda: self.kernel.FastAppend([], self.handle_class, None))
        self.refused(lambda: self.kernel.FastAppend({}, self.handle_class))


def main() -> None:
    path, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    fuzz = Fuzz(load(path), seed)
    fuzz.run(rounds)
    print(f"{rounds} rounds, {fuzz.accepted} records through FastAppend")


if __name__ == "__main__":
    main()
