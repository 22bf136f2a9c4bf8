"""The group coordinator: one shard for each partition of __consumer_offsets, loaded, served, kept small, let go.

Owned by the broker; event loop only. It finds the shard of a group and runs what shards decide; what a group or an
offset is, the shards know.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ottla.coordinator.hosted_shard import HostedShard, HostPorts, HostTimers, WheelTimers
from ottla.coordinator.loading import Loaded, Loading
from ottla.coordinator.partition_log import PartitionLog
from ottla.coordinator.ports import Appendable, Outcome, ShardTimers
from ottla.coordinator.rewriting import Rewriting
from ottla.coordinator.shard import GroupShard
from ottla.core.clock import Background, Clock
from ottla.core.cluster import OFFSETS_TOPIC
from ottla.core.errors import ErrorCode
from ottla.core.types import TimestampMs

# A partition is rewritten when its log is larger than this, and than so many times what is in force of it.
REWRITE_ABOVE_BYTES: Final = 4 * 1024 * 1024
REWRITE_FACTOR: Final = 3

# Replaying is the interpreter's work: more threads would only take turns, and the fsyncs need some too.
_LOADS_MAX = 2
_KNOWN_GROUPS_MAX = 20_000
_TOMBSTONES_PER_BATCH = 1000
_INT32_MIN = -(2**31)

_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
_NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
_NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR

_LOG = logging.getLogger("ottla.groups")

OpenLog: TypeAlias = Callable[[int], PartitionLog | ErrorCode]


class CoordinatorSettings(NamedTuple):
    """From the broker's config; none of the keys changes while it runs."""

    commit_timeout_ms: int
    load_buffer_bytes: int
    codec: int
    rewrite_above_bytes: int = REWRITE_ABOVE_BYTES


class CoordinatorPorts(NamedTuple):
    """What the coordinator needs of the broker."""

    open_log: OpenLog  # a partition of the topic, or why it can't be had
    make_shard: Callable[[ShardTimers], GroupShard]
    background: Background
    clock: Clock
    timers: WheelTimers
    call_soon: Callable[[Callable[[], None]], object]
    topic_names: Callable[[], Iterable[str]]  # all that there are now


class GroupCoordinator:
    """Without shards until `start`, which is when the topic is there; `stop` once, at the end."""

    def __init__(self, ports: CoordinatorPorts, settings: CoordinatorSettings) -> None:
        self._ports = ports
        self._settings = settings
        self.clock = ports.clock
        self._host_ports = HostPorts(
            ports.clock, ports.timers, commit_timeout_ms=settings.commit_timeout_ms, codec=settings.codec
        )
        self._served: list[GroupShard | ErrorCode] = []  # by partition
        self._hosts: dict[GroupShard, HostedShard] = {}
        self._partition_by_group: dict[str, int] = {}  # Java's hash is slow to compute here
        self._gathering: dict[HostedShard, None] = {}  # with outcomes for the next turn of the loop
        self._last_soon_ms = -1
        self._loads_waiting: deque[int] = deque()
        self._loads: dict[int, Loading] = {}
        # What a shard that is loaded keeps offsets of: the topics that were there when that began, less those that were
        # deleted since. One that was made anew meanwhile is another topic.
        self._topics_at_start: frozenset[str] = frozenset()
        self._rewritings_waiting: deque[HostedShard] = deque()
        self._rewriting: Rewriting | None = None
        self._start_ms = 0
        # For metrics
        self.loaded_record_count = 0
        self.damaged_count = 0
        self.rewriting_count = 0

    @property
    def partition_count(self) -> int:
        """0 as long as the topic isn't there."""
        return len(self._served)

    @property
    def loading_count(self) -> int:
        return len(self._loads) + len(self._loads_waiting)

    def partition_for(self, group_id: str) -> int:
        """The partition of a group, as every Kafka computes it; only when the topic is there."""
        found = self._partition_by_group.get(group_id)
        if found is None:
            if len(self._partition_by_group) >= _KNOWN_GROUPS_MAX:
                self._partition_by_group.clear()
            found = self._partition_by_group[group_id] = partition_of_group(group_id, partition_count=len(self._served))
        return found

    def shard_for(self, group_id: str) -> GroupShard | ErrorCode:
        """Who decides about a group: 14 while it is loaded, 15 where it can't be, 16 where another broker does."""
        if not self._served:
            return _NOT_AVAILABLE
        return self._served[self.partition_for(group_id)]

    def shards(self) -> Collection[GroupShard]:
        """Those that are served now."""
        return self._hosts.keys()

    def execute(self, shard: GroupShard, outcome: Appendable) -> None:
        """Make an outcome of one of `shards()` real; `on_done` is called before this returns if nothing must wait."""
        host = self._hosts.get(shard)
        if host is not None:
            host.execute(outcome)
        elif outcome.on_done is not None:
            outcome.on_done(_NOT_COORDINATOR)

    def execute_soon(self, shard: GroupShard, outcome: Appendable, now_ms: TimestampMs) -> None:
        """As `execute`, for outcomes that need no replay and may come in a flood: those of one turn share a batch.

        The first of each millisecond is executed at once, so that whoever is alone does not wait for others.
        """
        host = self._hosts.get(shard)
        if host is None or now_ms != self._last_soon_ms or not outcome.records:
            self._last_soon_ms = now_ms
            self.execute(shard, outcome)
            return
        if not self._gathering:
            self._ports.call_soon(self._append_gathered)
        self._gathering[host] = None
        host.gather(outcome)

    def _append_gathered(self) -> None:
        gathering, self._gathering = self._gathering, {}
        for host in gathering:
            host.append_gathered()

    # Life of the topic

    def start(self, partition_count: int) -> None:
        """The topic is there: load all of its partitions that this broker leads."""
        if self._served:
            return
        self._start_ms = self._ports.clock()
        self._topics_at_start = frozenset(self._ports.topic_names())
        self._served = [_LOADING] * partition_count
        self._partition_by_group.clear()
        self._loads_waiting.extend(range(partition_count))
        self._load_next()

    def take_offline(self, indexes: Iterable[int]) -> None:
        """Partitions whose log can't be used any more."""
        for index in indexes:
            if index < len(self._served):
                self._unload(index)
                self._served[index] = _NOT_AVAILABLE

    def stop(self) -> None:
        """The broker stops, or the topic is gone: whoever waits is sent to look for the coordinator again."""
        for index in range(len(self._served)):
            self._unload(index)
        self._served = []

    def on_topics_deleted(self, names: Collection[str]) -> None:
        """What was committed for a topic goes with it."""
        self._topics_at_start = self._topics_at_start.difference(names)  # for the shards that are loaded later
        for shard, host in list(self._hosts.items()):
            _delete_offsets(shard, host, names)

    def expire(self) -> None:
        """The round over all offsets, each `offsets.retention.check.interval.ms`."""
        now_ms = self._ports.clock()
        for shard, host in list(self._hosts.items()):
            host.execute(shard.expire(now_ms))

    def _unload(self, index: int) -> None:
        loading = self._loads.pop(index, None)
        if loading is not None:
            loading.cancel()
        if index in self._loads_waiting:
            self._loads_waiting.remove(index)
        shard = self._served[index]
        self._served[index] = _NOT_COORDINATOR
        if isinstance(shard, ErrorCode):
            return
        host = self._hosts.pop(shard)
        host.unload(_NOT_COORDINATOR)
        if self._rewriting is not None and self._rewriting.host is host:
            self._rewriting = None
            self._rewrite_next()

    # Loading

    def _load_next(self) -> None:
        while self._loads_waiting and len(self._loads) < _LOADS_MAX:
            self._load(self._loads_waiting.popleft())

    def _load(self, index: int) -> None:
        log = self._ports.open_log(index)
        if isinstance(log, ErrorCode):
            is_led_elsewhere = log == ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._served[index] = _NOT_COORDINATOR if is_led_elsewhere else _NOT_AVAILABLE
            return
        timers = HostTimers(self._ports.timers)
        shard = self._ports.make_shard(timers)
        loading = self._loads[index] = Loading(
            f"{OFFSETS_TOPIC}-{index}",
            shard,
            log,
            self._ports.background,
            buffer_bytes=self._settings.load_buffer_bytes,
            live_bytes_above=self._settings.rewrite_above_bytes,
            on_loaded=partial(self._on_loaded, index, shard, log, timers),
        )
        loading.step()

    def _on_loaded(
        self, index: int, shard: GroupShard, log: PartitionLog, timers: HostTimers, loaded: Loaded | ErrorCode
    ) -> None:
        del self._loads[index]
        if isinstance(loaded, ErrorCode):
            self._served[index] = _NOT_AVAILABLE
        else:
            self.loaded_record_count += loaded.record_count
            self.damaged_count += loaded.damaged_count
            host = HostedShard(
                index,
                shard,
                log,
                self._host_ports,
                log_bytes=loaded.log_bytes,
                log_bytes_max=max(self._settings.rewrite_above_bytes, REWRITE_FACTOR * loaded.live_bytes),
                on_grown=self._rewrite_later,
            )
            timers.set_host(host)
            self._hosts[shard] = host
            self._served[index] = shard
            shard.on_loaded(self._ports.clock())
            self._delete_offsets_of_gone_topics(shard, host)
            if host.log_bytes > host.log_bytes_max:
                self._rewrite_later(host)
        if not self.loading_count and self.loaded_record_count:
            took_ms = self._ports.clock() - self._start_ms
            _LOG.info("groups: %d records loaded in %d ms", self.loaded_record_count, took_ms)
        self._load_next()

    def _delete_offsets_of_gone_topics(self, shard: GroupShard, host: HostedShard) -> None:
        """Topics that were deleted while the shard was not loaded, such as by a start that finished the deletion."""
        gone = shard.offsets.topics() - self._topics_at_start
        if gone:
            names = ", ".join(sorted(gone))
            _LOG.info("%s-%d: offsets of topics that are gone are deleted: %s", OFFSETS_TOPIC, host.index, names)
            _delete_offsets(shard, host, gone)

    # Rewriting, one partition at a time

    def _rewrite_later(self, host: HostedShard) -> None:
        host.log_bytes_max = float("inf")  # not again before this one is done
        self._rewritings_waiting.append(host)
        if self._rewriting is None:
            self._ports.call_soon(self._rewrite_next)

    def _rewrite_next(self) -> None:
        while self._rewriting is None and self._rewritings_waiting:
            host = self._rewritings_waiting.popleft()
            if not host.is_unloaded:
                self._rewriting = Rewriting(host, self._ports.call_soon, self._on_rewritten)
                self._rewriting.start()

    def _on_rewritten(self, rewriting: Rewriting, error_code: ErrorCode) -> None:
        host = rewriting.host
        above_bytes = self._settings.rewrite_above_bytes
        if error_code:
            host.log_bytes_max = host.log_bytes + above_bytes  # try again, but not with every append
            _LOG.warning("%s-%d: not rewritten: %s", OFFSETS_TOPIC, host.index, error_code.name)
        else:
            self.rewriting_count += 1
            host.log_bytes = rewriting.log_bytes
            host.log_bytes_max = max(above_bytes, REWRITE_FACTOR * rewriting.written_bytes)
        if self._rewriting is rewriting:
            self._rewriting = None
            self._ports.call_soon(self._rewrite_next)


def _delete_offsets(shard: GroupShard, host: HostedShard, topics: Collection[str]) -> None:
    records = shard.on_topics_deleted(topics).records
    for first in range(0, len(records), _TOMBSTONES_PER_BATCH):
        host.execute(Outcome(records[first : first + _TOMBSTONES_PER_BATCH]))


def partition_of_group(group_id: str, *, partition_count: int) -> int:
    """Kafka's `Utils.abs(groupId.hashCode()) % partitions`: every tool that looks for a group's records computes it."""
    hash_code = _java_hash_code(group_id)
    # The smallest number has no positive counterpart; Kafka takes 0 for it.
    return 0 if hash_code == _INT32_MIN else abs(hash_code) % partition_count


def _java_hash_code(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32 bits with a sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value
