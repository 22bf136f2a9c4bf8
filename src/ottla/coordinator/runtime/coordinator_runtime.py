"""The coordinator runtime: one shard for each partition of a topic that this broker leads.

It loads shards, executes what they decide, keeps their logs small and unloads them. It is generic in the shards: what
their records mean, and which request goes to which partition, the coordinator above knows. Event loop only.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, Generic, NamedTuple, TypeAlias

from ottla.coordinator.runtime.context import ContextPorts, ContextTimers, CoordinatorContext, ShardT
from ottla.coordinator.runtime.loading import Loaded, Loading
from ottla.coordinator.runtime.ports import Appendable, PartitionLog, ShardTimers, WheelTimers
from ottla.coordinator.runtime.rewriting import Rewriting
from ottla.core.clock import Background, Clock
from ottla.core.errors import ErrorCode
from ottla.core.timing_wheel import TimerTask
from ottla.core.types import NO_LEADER_EPOCH, LeaderEpoch, TimestampMs

# A partition is rewritten when its log is larger than this, and than REWRITE_FACTOR times the records that were live
# when it was loaded or last rewritten.
REWRITE_ABOVE_BYTES: Final = 4 * 1024 * 1024
REWRITE_FACTOR: Final = 3

# Replaying is the interpreter's work: more threads would only take turns, and the fsyncs need some too.
_LOADS_MAX = 2

# How often it is looked whether what was loaded can be committed, where there are too few in-sync replicas.
_COMMIT_AGAIN_MS = 500

_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
_NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
_NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR

_LOG = logging.getLogger("ottla.coordinator")

OpenLog: TypeAlias = Callable[[int], PartitionLog | ErrorCode]


class RuntimeSettings(NamedTuple):
    """From the broker's config; none of the keys changes while it runs."""

    commit_timeout_ms: int
    load_buffer_bytes: int
    codec: int
    rewrite_above_bytes: int = REWRITE_ABOVE_BYTES


class RuntimePorts(NamedTuple, Generic[ShardT]):
    """What the runtime needs of the broker, and of the coordinator above it."""

    open_log: OpenLog  # a partition of the topic, or why it can't be used
    make_shard: Callable[[int, ShardTimers], ShardT]  # when a load begins; the shard is empty
    on_loaded: Callable[[int, ShardT], None]  # the shard of a partition is served from now on
    background: Background
    clock: Clock
    timers: WheelTimers
    call_soon: Callable[[Callable[[], None]], object]


class _Again(TimerTask):
    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        super().__init__()
        self._callback = callback

    def run(self, now_ms: int) -> None:
        self._callback()


class CoordinatorRuntime(Generic[ShardT]):
    """Serves no partition until `load`; `unload_all` once, at the end or when the topic is gone."""

    def __init__(self, topic: str, ports: RuntimePorts[ShardT], settings: RuntimeSettings) -> None:
        self._topic = topic
        self._ports = ports
        self._settings = settings
        self._context_ports = ContextPorts(
            ports.clock, ports.timers, commit_timeout_ms=settings.commit_timeout_ms, codec=settings.codec
        )
        # By partition: the newest leader epoch that is known; its shard, or the error that its requests get.
        self._leader_epochs: dict[int, LeaderEpoch] = {}
        self._served: dict[int, ShardT | ErrorCode] = {}
        self._contexts: dict[ShardT, CoordinatorContext[ShardT]] = {}
        self._gathering: dict[CoordinatorContext[ShardT], None] = {}  # with outcomes for the next turn of the loop
        self._last_soon_ms = -1
        self._loads: dict[int, Loading] = {}  # by partition, those that wait too
        self._loads_waiting: deque[Loading] = deque()
        self._uncommitted: dict[int, ShardT] = {}  # loaded, but their records may still be lost with this leader
        self._is_starting_loads = False
        self._loading_since_ms = 0
        self._loaded_since = 0  # records
        self._rewritings_waiting: deque[CoordinatorContext[ShardT]] = deque()
        self._rewriting: Rewriting[ShardT] | None = None
        # For metrics
        self.loaded_record_count = 0
        self.damaged_count = 0
        self.rewriting_count = 0

    @property
    def loading_count(self) -> int:
        return len(self._loads)

    def shard_of(self, partition: int) -> ShardT | ErrorCode:
        """Who serves a partition: 14 while it is loaded, 15 where it can't be, 16 where another broker does."""
        return self._served.get(partition, _NOT_COORDINATOR)

    def shards(self) -> Collection[ShardT]:
        """Those that are served now."""
        return self._contexts.keys()

    def execute(self, shard: ShardT, outcome: Appendable) -> None:
        """Make an outcome of one of `shards()` real; `on_done` is called before this returns if nothing must wait."""
        context = self._contexts.get(shard)
        if context is not None:
            context.execute(outcome)
        elif outcome.on_done is not None:
            outcome.on_done(_NOT_COORDINATOR)

    def execute_soon(self, shard: ShardT, outcome: Appendable, now_ms: TimestampMs) -> None:
        """As `execute`, for outcomes that `on_done` applies and that may come in floods: those of a turn share a batch.

        The first of each millisecond is executed at once, so that a lone one does not wait for others.
        """
        context = self._contexts.get(shard)
        if context is None or now_ms != self._last_soon_ms or not outcome.records:
            self._last_soon_ms = now_ms
            self.execute(shard, outcome)
            return
        if not self._gathering:
            self._ports.call_soon(self._append_gathered)
        self._gathering[context] = None
        context.gather(outcome)

    def _append_gathered(self) -> None:
        gathering, self._gathering = self._gathering, {}
        for context in gathering:
            context.append_gathered()

    # Leadership

    def load(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        """This broker leads the partition since `leader_epoch`: build its shard from the log.

        A newer epoch replaces a shard that is loaded or loading: another leader may have written in between. Any other
        epoch is stale and changes nothing.
        """
        if leader_epoch <= self._leader_epochs.get(partition, NO_LEADER_EPOCH):
            return
        self._end(partition, leader_epoch, _LOADING)
        log = self._ports.open_log(partition)
        if isinstance(log, ErrorCode):
            is_led_elsewhere = log == ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._served[partition] = _NOT_COORDINATOR if is_led_elsewhere else _NOT_AVAILABLE
            return
        timers = ContextTimers(self._ports.timers)
        shard = self._ports.make_shard(partition, timers)
        loading = Loading(
            f"{self._topic}-{partition}",
            shard,
            log,
            self._ports.background,
            buffer_bytes=self._settings.load_buffer_bytes,
            live_bytes_above=self._settings.rewrite_above_bytes,
            on_loaded=partial(self._on_loaded, partition, shard, log, timers),
        )
        if not self._loads:
            self._loading_since_ms = self._ports.clock()
            self._loaded_since = 0
        self._loads[partition] = loading
        self._loads_waiting.append(loading)
        self._start_loads()

    def unload(self, partition: int, leader_epoch: LeaderEpoch, error_code: ErrorCode) -> None:
        """Since `leader_epoch` the partition is not served here: requests are answered with `error_code` from now on.

        Those that wait are answered with NOT_COORDINATOR: their clients look for the coordinator again. A stale epoch
        changes nothing; that of the load does, because a log may fail under its leader.
        """
        if leader_epoch >= self._leader_epochs.get(partition, NO_LEADER_EPOCH):
            self._end(partition, leader_epoch, error_code)
            self._start_loads()

    def unload_all(self) -> None:
        """The broker stops, or the topic is gone and with it its epochs."""
        for partition, leader_epoch in list(self._leader_epochs.items()):
            self._end(partition, leader_epoch, _NOT_COORDINATOR)
        self._served.clear()
        self._leader_epochs.clear()

    def _end(self, partition: int, leader_epoch: LeaderEpoch, error_code: ErrorCode) -> None:
        """End what there is of a partition; requests are answered with `error_code`."""
        self._leader_epochs[partition] = leader_epoch
        served = self._served.get(partition, _NOT_COORDINATOR)
        self._served[partition] = error_code  # first: an answer may let the next request of its connection in
        loading = self._loads.pop(partition, None)
        if loading is not None:
            loading.cancel()
            if loading in self._loads_waiting:
                self._loads_waiting.remove(loading)
        self._uncommitted.pop(partition, None)
        if isinstance(served, ErrorCode):
            return
        context = self._contexts.pop(served)
        context.unload(_NOT_COORDINATOR)
        if self._rewriting is not None and self._rewriting.context is context:
            self._rewriting = None
            self._ports.call_soon(self._rewrite_next)

    # Loading

    def _start_loads(self) -> None:
        if self._is_starting_loads:
            return  # the load of an empty log ends before its start returns, and comes back here
        self._is_starting_loads = True
        try:
            while self._loads_waiting and len(self._loads) - len(self._loads_waiting) < _LOADS_MAX:
                self._loads_waiting.popleft().step()
        finally:
            self._is_starting_loads = False

    def _on_loaded(
        self, partition: int, shard: ShardT, log: PartitionLog, timers: ContextTimers, loaded: Loaded | ErrorCode
    ) -> None:
        del self._loads[partition]
        if isinstance(loaded, ErrorCode):
            self._served[partition] = _NOT_AVAILABLE
        else:
            serve = partial(self._serve, partition, shard, log, timers, loaded)
            if log.committed_offset >= log.end_offset:
                serve()
            else:
                # What is answered must not be lost with this leader, if another one is elected that does not have it.
                self._uncommitted[partition] = shard
                self._await_commit(partition, shard, log, serve)
        if not self._loads and self._loaded_since:
            took_ms = self._ports.clock() - self._loading_since_ms
            _LOG.info("%s: %d records loaded in %d ms", self._topic, self._loaded_since, took_ms)
        self._start_loads()

    def _await_commit(self, partition: int, shard: ShardT, log: PartitionLog, serve: Callable[[], None]) -> None:
        def on_committed(error_code: ErrorCode) -> None:
            if self._uncommitted.get(partition) is not shard:
                return  # unloaded, or loaded in a later epoch
            if error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                self._ports.timers.add(_Again(again), delay_ms=_COMMIT_AGAIN_MS)
                return
            del self._uncommitted[partition]
            if error_code == ErrorCode.NONE:
                serve()
            else:
                is_led_elsewhere = error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                self._served[partition] = _NOT_COORDINATOR if is_led_elsewhere else _NOT_AVAILABLE

        def again() -> None:
            if self._uncommitted.get(partition) is shard:
                log.await_commit(log.end_offset, on_committed)

        again()

    def _serve(self, partition: int, shard: ShardT, log: PartitionLog, timers: ContextTimers, loaded: Loaded) -> None:
        self.loaded_record_count += loaded.record_count
        self._loaded_since += loaded.record_count
        self.damaged_count += loaded.damaged_count
        context = CoordinatorContext(
            partition,
            shard,
            log,
            self._context_ports,
            log_bytes=loaded.log_bytes,
            log_bytes_max=max(self._settings.rewrite_above_bytes, REWRITE_FACTOR * loaded.live_bytes),
            on_grown=self._rewrite_later,
        )
        timers.set_context(context)
        self._contexts[shard] = context
        self._served[partition] = shard
        shard.on_loaded()
        self._ports.on_loaded(partition, shard)
        if context.log_bytes > context.log_bytes_max:
            self._rewrite_later(context)

    # Rewriting, one partition at a time

    def _rewrite_later(self, context: CoordinatorContext[ShardT]) -> None:
        context.log_bytes_max = float("inf")  # not again before this one is done
        self._rewritings_waiting.append(context)
        if self._rewriting is None:
            self._ports.call_soon(self._rewrite_next)

    def _rewrite_next(self) -> None:
        while self._rewriting is None and self._rewritings_waiting:
            context = self._rewritings_waiting.popleft()
            if not context.is_unloaded:
                self._rewriting = Rewriting(context, self._ports.call_soon, self._on_rewritten)
                self._rewriting.start()

    def _on_rewritten(self, rewriting: Rewriting[ShardT], error_code: ErrorCode) -> None:
        context = rewriting.context
        above_bytes = self._settings.rewrite_above_bytes
        if error_code:
            context.log_bytes_max = context.log_bytes + above_bytes  # try again, but not with every append
            _LOG.warning("%s-%d: not rewritten: %s", self._topic, context.partition, error_code.name)
        else:
            self.rewriting_count += 1
            context.log_bytes = rewriting.log_bytes
            context.log_bytes_max = max(above_bytes, REWRITE_FACTOR * rewriting.written_bytes)
        if self._rewriting is rewriting:
            self._rewriting = None
            self._ports.call_soon(self._rewrite_next)
