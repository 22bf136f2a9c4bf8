"""The group coordinator: which shard decides about a group, and what the shards of groups do together.

Owned by the broker; event loop only. The runtime runs the shards; what a group or an offset is, the shards know.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime, OpenLog, RuntimePorts, RuntimeSettings
from ottla.coordinator.runtime.ports import Outcome, ShardTimers, WheelTimers
from ottla.core.clock import Background, Clock
from ottla.core.cluster import OFFSETS_TOPIC
from ottla.core.errors import ErrorCode
from ottla.core.types import LeaderEpoch

_KNOWN_GROUPS_MAX = 20_000
_TOMBSTONES_PER_BATCH = 1000
_INT32_MIN = -(2**31)

_LOG = logging.getLogger("ottla.groups")


class CoordinatorPorts(NamedTuple):
    """What the coordinator needs of the broker."""

    open_log: OpenLog
    make_shard: Callable[[ShardTimers], GroupShard]
    background: Background
    clock: Clock
    timers: WheelTimers
    call_soon: Callable[[Callable[[], None]], object]
    topic_names: Callable[[], Iterable[str]]  # all that there are now


class GroupCoordinator:
    """Call `start` when the topic exists, and `stop` when it is deleted or the broker stops."""

    def __init__(self, ports: CoordinatorPorts, settings: RuntimeSettings) -> None:
        self._ports = ports
        self.clock = ports.clock
        runtime_ports = RuntimePorts(
            ports.open_log,
            self._make_shard,
            self._delete_offsets_of_gone_topics,
            ports.background,
            ports.clock,
            ports.timers,
            ports.call_soon,
        )
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(OFFSETS_TOPIC, runtime_ports, settings)
        self.execute = self.runtime.execute  # bound here: a method around it would be a call more for each commit
        self.execute_soon = self.runtime.execute_soon
        self.shards = self.runtime.shards
        self.partition_count = 0  # as long as the topic isn't there
        self._partition_by_group: dict[str, int] = {}  # Java's hash is slow to compute here
        # What a shard that is loading keeps offsets of: the topics that were there when its load began, less those that
        # were deleted since. One that was made anew meanwhile is another topic.
        self._topics_now: set[str] = set()
        self._topics_at_load: dict[int, set[str]] = {}

    def partition_for(self, group_id: str) -> int:
        """The partition of a group, as every Kafka computes it; only when the topic is there."""
        found = self._partition_by_group.get(group_id)
        if found is None:
            if len(self._partition_by_group) >= _KNOWN_GROUPS_MAX:
                self._partition_by_group.clear()
            found = partition_of_group(group_id, partition_count=self.partition_count)
            self._partition_by_group[group_id] = found
        return found

    def shard_for(self, group_id: str) -> GroupShard | ErrorCode:
        """Who decides about a group: 14 while it is loaded, 15 where it can't be, 16 where another broker does."""
        if not self.partition_count:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.runtime.shard_of(self.partition_for(group_id))

    # Life of the topic

    def start(self, partition_count: int) -> None:
        """The topic exists with this many partitions, for good: a group's partition depends on their number."""
        self.partition_count = partition_count
        self._partition_by_group.clear()

    def load(self, leader_epochs: Mapping[int, LeaderEpoch]) -> None:
        """This broker leads these partitions of the topic, each since its epoch."""
        self._topics_now = set(self._ports.topic_names())
        for partition, leader_epoch in leader_epochs.items():
            self.runtime.load(partition, leader_epoch)

    def unload(self, partition: int, leader_epoch: LeaderEpoch, error_code: ErrorCode) -> None:
        """Since its epoch a partition is not served here; requests are answered with `error_code`."""
        self.runtime.unload(partition, leader_epoch, error_code)

    def stop(self) -> None:
        """The broker stops, or the topic is gone: requests that wait are answered with NOT_COORDINATOR."""
        self.runtime.unload_all()
        self._topics_at_load.clear()
        self.partition_count = 0

    def _make_shard(self, partition: int, timers: ShardTimers) -> GroupShard:
        self._topics_at_load[partition] = self._topics_now
        return self._ports.make_shard(timers)

    # All shards

    def expire(self) -> None:
        """The round over all offsets, each `offsets.retention.check.interval.ms`."""
        now_ms = self.clock()
        for shard in list(self.shards()):
            self.execute(shard, shard.expire(now_ms))

    def on_topics_deleted(self, names: Collection[str]) -> None:
        """What was committed for a topic goes with it."""
        for topics in self._topics_at_load.values():
            topics.difference_update(names)
        for shard in list(self.shards()):
            self._delete_offsets(shard, names)

    def _delete_offsets_of_gone_topics(self, partition: int, shard: GroupShard) -> None:
        """Topics that were deleted while the shard was not loaded, such as by a start that finished the deletion."""
        gone = sorted(shard.offsets.topics() - self._topics_at_load.pop(partition))
        if gone:
            names = ", ".join(gone)
            _LOG.info("%s-%d: offsets of topics that are gone are deleted: %s", OFFSETS_TOPIC, partition, names)
            self._delete_offsets(shard, gone)

    def _delete_offsets(self, shard: GroupShard, topics: Collection[str]) -> None:
        records = shard.on_topics_deleted(topics).records
        for first in range(0, len(records), _TOMBSTONES_PER_BATCH):
            self.execute(shard, Outcome(records[first : first + _TOMBSTONES_PER_BATCH]))


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
