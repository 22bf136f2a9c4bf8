"""A kind of shard that is not of groups, and a runtime for it on logs in memory: counters by name.

The smallest shard that has everything a shard may have: requests that wait for their record, reads, and a timer.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime, RuntimePorts, RuntimeSettings
from ottla.coordinator.runtime.ports import DamagedRecord, KeyValue, Outcome, ShardTimer, ShardTimers
from ottla.core.disk import FileSlice
from ottla.core.errors import ErrorCode
from ottla.core.timing_wheel import TimerTask, TimingWheel
from ottla.records.header import patch_base_offset_and_epoch, read_header
from tests.storage.hand_driven import HandBackground, HandLoop

TOPIC = "__counters"
COMMIT_TIMEOUT_MS = 5_000


class Answer(NamedTuple):
    """To an increment: the new count, or the error."""

    count: int
    error_code: ErrorCode


class CounterShard:
    """Counts by name; a name that is given a lifetime is deleted when that is over."""

    def __init__(self, timers: ShardTimers) -> None:
        self._timers = timers
        self.counts: dict[str, int] = {}
        self.is_loaded = False
        self.unloaded_with: ErrorCode | None = None

    # Requests

    def increment(self, name: str, answer: Callable[[Answer], None]) -> Outcome:
        count = self.counts.get(name, 0) + 1
        return Outcome([(name.encode(), b"%d" % count)], lambda error_code: answer(Answer(count, error_code)))

    def delete_in(self, name: str, *, delay_ms: int) -> None:
        self._timers.schedule(ShardTimer(lambda: Outcome([(name.encode(), None)])), delay_ms=delay_ms)

    # What the runtime asks for

    def replay(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.counts.pop(key.decode(), None)
        elif value.isdigit():
            self.counts[key.decode()] = int(value)
        else:
            raise DamagedRecord(f"{value!r} is no number")

    def live_records(self) -> Iterator[KeyValue]:
        for name in list(self.counts):
            if name in self.counts:
                yield name.encode(), b"%d" % self.counts[name]

    def on_loaded(self) -> None:
        self.is_loaded = True

    def unload(self, error_code: ErrorCode) -> None:
        self.unloaded_with = error_code


class MemoryFile:
    """What a thread reads of a log."""

    fd = -1

    def __init__(self, data: bytes) -> None:
        self._data = data

    def pread(self, length: int, position: int) -> bytes:
        return self._data[position : position + length]


class MemoryLog:
    """A partition's log: what is appended is committed at once, or when the test says so."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []  # with the offset behind each
        self.start_offset = 0
        self.end_offset = 0
        self.holds_commits = False
        self.is_offline = False
        self.holds_fsyncs = False
        self.fsyncs: list[Callable[[ErrorCode], None]] = []  # held back
        self._waiting: list[tuple[int, Callable[[ErrorCode], None]]] = []
        self._held_offset = 0
        self._segments: list[int] = [0]

    @property
    def committed_offset(self) -> int:
        return self._held_offset if self.holds_commits else self.end_offset

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def hold_commits(self) -> None:
        self._held_offset = self.end_offset
        self.holds_commits = True

    def commit(self) -> None:
        """Everything that was appended is committed, and whoever waits for it is called back."""
        self._held_offset = self.end_offset
        waiting, self._waiting = self._waiting, []
        for _, on_done in waiting:
            on_done(ErrorCode.NONE)

    def fail_commits(self, error_code: ErrorCode) -> None:
        """Whoever waits hears that it is not committed."""
        waiting, self._waiting = self._waiting, []
        for _, on_done in waiting:
            on_done(error_code)

    def append(self, batch: bytearray) -> ErrorCode:
        if self.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        patch_base_offset_and_epoch(batch, 0, base_offset=self.end_offset, leader_epoch=0)
        self.end_offset = read_header(batch, 0).next_offset
        self.batches.append((self.end_offset, bytes(batch)))
        return ErrorCode.NONE

    def await_commit(self, offset: int, on_done: Callable[[ErrorCode], None]) -> None:
        self._waiting.append((offset, on_done))

    def read(self, offset: int, *, max_bytes: int) -> FileSlice | ErrorCode:
        if self.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        data = b""
        for next_offset, batch in self.batches:
            if next_offset > offset and (not data or len(data) + len(batch) <= max_bytes):
                data += batch
        return FileSlice(MemoryFile(data), 0, len(data))

    def next_segment_offset(self, offset: int) -> int:
        return next((segment for segment in self._segments if segment > offset), self.end_offset)

    def roll(self) -> ErrorCode:
        self._segments.append(self.end_offset)
        return ErrorCode.NONE

    def await_durable(self, offset: int, on_done: Callable[[ErrorCode], None]) -> None:
        if self.holds_fsyncs:
            self.fsyncs.append(on_done)
        else:
            on_done(ErrorCode.NONE)

    def delete_before(self, offset: int) -> None:
        self.start_offset = offset
        self.batches = [(next_offset, batch) for next_offset, batch in self.batches if next_offset > offset]

    @property
    def size_bytes(self) -> int:
        return sum(len(batch) for _, batch in self.batches)


class CounterRig:
    """A runtime of counters, on a topic with so many partitions. Time and threads are the test's."""

    def __init__(self, partitions: int = 1, *, rewrite_above_bytes: int = 1 << 20) -> None:
        self.now_ms = 1_000
        self.wheel = TimingWheel()
        self.background = HandBackground()
        self.loop = HandLoop()
        self.logs: list[MemoryLog | ErrorCode] = [MemoryLog() for _ in range(partitions)]
        self.made: list[tuple[int, CounterShard]] = []
        self.loaded: list[int] = []
        ports: RuntimePorts[CounterShard] = RuntimePorts(
            open_log=self._open_log,
            make_shard=self._make_shard,
            on_loaded=lambda partition, _: self.loaded.append(partition),
            background=self.background,
            clock=lambda: self.now_ms,
            timers=self,
            call_soon=self.loop.call_soon,
        )
        settings = RuntimeSettings(COMMIT_TIMEOUT_MS, 1_000, 0, rewrite_above_bytes)
        self.runtime: CoordinatorRuntime[CounterShard] = CoordinatorRuntime(TOPIC, ports, settings)

    def _open_log(self, partition: int) -> MemoryLog | ErrorCode:
        log = self.logs[partition]
        return ErrorCode.KAFKA_STORAGE_ERROR if isinstance(log, MemoryLog) and log.is_offline else log

    def _make_shard(self, partition: int, timers: ShardTimers) -> CounterShard:
        shard = CounterShard(timers)
        self.made.append((partition, shard))
        return shard

    # The broker's timers

    def add(self, task: TimerTask, *, delay_ms: int) -> None:
        self.wheel.add(task, delay_ms=delay_ms, now_ms=self.now_ms)

    def time(self) -> float:
        return self.now_ms / 1000

    def advance(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        self.wheel.advance(self.now_ms)

    # What a test asks for

    def log(self, partition: int = 0) -> MemoryLog:
        log = self.logs[partition]
        assert isinstance(log, MemoryLog)
        return log

    def shard(self, partition: int = 0) -> CounterShard:
        shard = self.runtime.shard_of(partition)
        assert isinstance(shard, CounterShard), shard
        return shard

    def counts(self, partition: int = 0) -> dict[str, int] | ErrorCode:
        """What the partition serves, or why it doesn't."""
        shard = self.runtime.shard_of(partition)
        return shard if isinstance(shard, ErrorCode) else shard.counts

    def increment(self, name: str, partition: int = 0) -> list[Answer]:
        """Where the answer goes."""
        answers: list[Answer] = []
        shard = self.shard(partition)
        self.runtime.execute(shard, shard.increment(name, answers.append))
        return answers

    def settle(self) -> None:
        """Until nothing is to be done any more."""
        while self.loop.soon or self.background.waiting:
            self.loop.turn()
            self.background.run_all()
