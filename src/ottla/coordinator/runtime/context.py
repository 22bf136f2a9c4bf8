"""A loaded shard with its log: outcomes become batches, and what is committed is replayed in the log's order.

Owned by the runtime; event loop only. Records are bytes here: what they mean, the shard knows.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.coordinator.runtime.ports import (
    IF_LATE,
    NEVER,
    ON_COMMIT,
    Appendable,
    KeyValue,
    Outcome,
    PartitionLog,
    Shard,
    ShardTimer,
    WheelTimers,
)
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode
from ottla.core.timing_wheel import TimerTask
from ottla.core.types import Offset, TimestampMs
from ottla.records.build import BatchBuilder, build_plain_batch
from ottla.records.compression import NONE

ShardT = TypeVar("ShardT", bound=Shard)

_NONE = ErrorCode.NONE
_GATHERED_MAX = 64

# What clients are answered when an append failed: the errors on the left are about a topic that they know nothing of.
_CLIENT_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class ContextPorts(NamedTuple):
    """What a context needs of the broker."""

    clock: Clock
    timers: WheelTimers
    commit_timeout_ms: int
    codec: int


class ContextTimers:
    """The timers of one shard, whose outcomes go to its context; made before that, because the shard needs them."""

    __slots__ = ("_execute", "_timers", "time")

    _execute: Callable[[Outcome], None]

    def __init__(self, timers: WheelTimers) -> None:
        self._timers = timers
        self.time = timers.time

    def set_context(self, context: "CoordinatorContext[ShardT]") -> None:
        self._execute = context.execute

    def schedule(self, timer: ShardTimer, *, delay_ms: int) -> None:
        timer.bind(self._execute)
        self._timers.add(timer, delay_ms=delay_ms)


class CoordinatorContext(Generic[ShardT]):
    """Lives from the end of its shard's load until `unload`.

    `log_bytes` is what a start would have to load; when it passes `log_bytes_max`, `on_grown` is called.
    """

    __slots__ = (
        "_error_code",
        "_gathered",
        "_held",
        "_is_waiting",
        "_on_drained",
        "_pending",
        "_ports",
        "log",
        "log_bytes",
        "log_bytes_max",
        "on_grown",
        "partition",
        "shard",
    )

    def __init__(
        self,
        partition: int,
        shard: ShardT,
        log: PartitionLog,
        ports: ContextPorts,
        *,
        log_bytes: int,
        log_bytes_max: float,
        on_grown: "Callable[[CoordinatorContext[ShardT]], None]",
    ) -> None:
        self.partition = partition
        self.shard = shard
        self.log = log
        self.log_bytes = log_bytes
        self.log_bytes_max = log_bytes_max
        self.on_grown = on_grown
        self._ports = ports
        self._pending: deque[_Pending] = deque()  # appended, not committed yet
        self._is_waiting = False  # for a commit
        self._gathered: list[Appendable] = []  # for one batch
        self._held: deque[Appendable] | None = None  # not appended yet: they wait for `_on_drained`
        self._on_drained: Callable[[], None] | None = None
        self._error_code = _NONE  # once it is unloaded

    @property
    def is_unloaded(self) -> bool:
        return self._error_code != _NONE

    def execute(self, outcome: Appendable) -> None:
        """Append an outcome's records; without any it is done at once."""
        if self._gathered:
            self.append_gathered()  # they came first
        if not outcome.records:
            if outcome.on_done is not None:
                outcome.on_done(_NONE)
        elif self._held is None:
            self.append_now(outcome)
        else:
            self._held.append(outcome)

    def gather(self, outcome: Appendable) -> None:
        """Keep an outcome that `on_done` applies for the next `append_gathered`, which comes in any case."""
        assert outcome.replay is IF_LATE
        self._gathered.append(outcome)
        if len(self._gathered) >= _GATHERED_MAX:
            self.append_gathered()

    def append_gathered(self) -> None:
        """All in one batch: one write, and one pass through the log."""
        gathered, self._gathered = self._gathered, []
        if len(gathered) > 1 and self._held is None and not self._try_append(_merged(gathered)):
            return
        # What fails together, such as a batch larger than a segment, may do alone: nothing was written.
        for outcome in gathered:
            self.execute(outcome)

    def append_now(self, outcome: Appendable) -> None:
        """`execute`, before those that are held back."""
        error_code = self._try_append(outcome)
        if error_code:
            _fail(outcome, error_code)

    def _try_append(self, outcome: Appendable) -> ErrorCode:
        error_code = self._error_code or self._write(outcome.records)
        if error_code:
            return error_code
        log = self.log
        end_offset = log.end_offset
        if not self._pending and log.committed_offset >= end_offset:
            self._settle(outcome)
        else:
            self._await_commit(outcome, end_offset)
        if self.log_bytes > self.log_bytes_max:
            self.on_grown(self)
        return _NONE

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Call back, once, when the shard's state is all that the log says; outcomes that come until then are held."""
        if not self._pending:
            callback()
            return
        assert self._on_drained is None, "one at a time"
        self._on_drained = callback
        self._held = deque()

    def unload(self, error_code: ErrorCode) -> None:
        """Serve no more: requests that wait are answered with `error_code`."""
        self._error_code = error_code
        self.append_gathered()
        self.shard.unload(error_code)
        self._fail_pending(error_code)
        self._on_drained = None
        self._release()

    def _write(self, records: Sequence[KeyValue]) -> ErrorCode:
        now_ms = self._ports.clock()
        codec = self._ports.codec
        batch = build_plain_batch(now_ms, records) if codec == NONE else _build_batch(now_ms, records, codec)
        size_bytes = len(batch)
        error_code = self.log.append(batch)
        if error_code == _NONE:
            self.log_bytes += size_bytes
        return error_code

    def _settle(self, outcome: Appendable) -> None:
        if outcome.replay is ON_COMMIT:
            replay = self.shard.replay
            for key, value in outcome.records:
                replay(key, value)
        if outcome.on_done is not None:
            outcome.on_done(_NONE)

    # Waiting for a commit

    def _await_commit(self, outcome: Appendable, end_offset: Offset) -> None:
        pending = _Pending(outcome, end_offset)
        self._pending.append(pending)
        self._ports.timers.add(pending, delay_ms=self._ports.commit_timeout_ms)
        self._maybe_wait()

    def _maybe_wait(self) -> None:
        if self._pending and not self._is_waiting:
            self._is_waiting = True
            self.log.await_commit(self._pending[0].next_offset, self._on_committed)

    def _on_committed(self, error_code: ErrorCode) -> None:
        self._is_waiting = False
        if error_code:
            self._fail_pending(error_code)
        else:
            pending = self._pending
            while pending and pending[0].next_offset <= self.log.committed_offset:
                self._settle_pending(pending.popleft())
            self._maybe_wait()
        if not self._pending and self._on_drained is not None:
            on_drained, self._on_drained = self._on_drained, None
            on_drained()
            self._release()

    def _settle_pending(self, pending: "_Pending") -> None:
        outcome = pending.outcome
        if not pending.is_answered:
            pending.cancel()
            self._settle(outcome)
            return
        # It took too long and was answered as failed, but it is in the log, and a start would load it. A shard whose
        # state is ahead of the log has moved on since, and says so in a later record.
        if outcome.replay is not NEVER:
            for key, value in outcome.records:
                self.shard.replay(key, value)

    def _fail_pending(self, error_code: ErrorCode) -> None:
        failed, self._pending = self._pending, deque()
        for pending in failed:
            if not pending.is_answered:
                pending.cancel()
                _fail(pending.outcome, error_code)

    def _release(self) -> None:
        held, self._held = self._held, None
        for outcome in held or ():
            self.execute(outcome)


class _Pending(TimerTask):
    """An outcome between its append and its commit; as a timer it times the caller out."""

    __slots__ = ("is_answered", "next_offset", "outcome")

    def __init__(self, outcome: Appendable, next_offset: Offset) -> None:
        super().__init__()
        self.outcome = outcome
        self.next_offset = next_offset
        self.is_answered = False

    def run(self, now_ms: int) -> None:
        self.is_answered = True
        _fail(self.outcome, ErrorCode.REQUEST_TIMED_OUT)


def _merged(outcomes: Sequence[Appendable]) -> Outcome:
    def on_done(error_code: ErrorCode) -> None:
        for outcome in outcomes:
            if outcome.on_done is not None:
                outcome.on_done(error_code)

    return Outcome([record for outcome in outcomes for record in outcome.records], on_done, IF_LATE)


def _build_batch(now_ms: TimestampMs, records: Sequence[KeyValue], codec: int) -> bytearray:
    builder = BatchBuilder()
    for key, value in records:
        builder.append(now_ms, key, value)
    return builder.build(codec=codec)


def _fail(outcome: Appendable, error_code: ErrorCode) -> None:
    if outcome.on_done is not None:
        outcome.on_done(_CLIENT_ERRORS.get(error_code, error_code))
