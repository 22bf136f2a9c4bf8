"""Puts the group coordinator together: its log is this broker's replicas, its settings are this broker's config."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.offsets_log import OffsetsLog
from ottla.broker.offsets_topic import OffsetsTopic
from ottla.broker.topic_creation import TopicCreator
from ottla.coordinator.group.coordinator import CoordinatorPorts, GroupCoordinator
from ottla.coordinator.group.groups import Groups
from ottla.coordinator.group.offsets import OffsetSettings
from ottla.coordinator.group.rebalancing import GroupSettings
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.runtime.coordinator_runtime import RuntimeSettings
from ottla.coordinator.runtime.ports import PartitionLog, ShardTimers, WheelTimers
from ottla.core.clock import Background, Clock
from ottla.core.cluster import OFFSETS_TOPIC
from ottla.core.config.config import BrokerConfig
from ottla.core.config.group_keys import MINUTE_MS
from ottla.core.errors import ErrorCode
from ottla.core.types import TopicPartition
from ottla.replication.replicas import Replicas
from ottla.storage.flush import Flusher
from ottla.storage.log_manager import LogManager


class GroupCoordination(NamedTuple):
    """The coordinator and the topic that it lives on."""

    coordinator: GroupCoordinator
    offsets_topic: OffsetsTopic

    def take_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """A log directory failed."""
        for topic, partition in partitions:
            if topic == OFFSETS_TOPIC:
                self.offsets_topic.on_partition_offline(partition)


def make_group_coordination(
    config: BrokerConfig,
    *,
    replicas: Replicas,
    log_manager: LogManager,
    flusher: Flusher,
    cache: MetadataCache,
    creation: TopicCreator,
    background: Background,
    clock: Clock,
    timers: WheelTimers,
    call_soon: Callable[[Callable[[], None]], object],
    random_bytes: Callable[[int], bytes],
    is_alone: bool,
) -> GroupCoordination:
    group_settings = GroupSettings(
        initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        session_timeout_min_ms=config.get_int("group.min.session.timeout.ms"),
        session_timeout_max_ms=config.get_int("group.max.session.timeout.ms"),
        group_max_size=config.get_int("group.max.size"),
    )
    offset_settings = OffsetSettings(
        metadata_size_max=config.get_int("offset.metadata.max.bytes"),
        retention_ms=config.get_int("offsets.retention.minutes") * MINUTE_MS,
    )

    def new_uuid() -> str:
        text = random_bytes(16).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}"

    def open_log(partition: int) -> PartitionLog | ErrorCode:
        found = replicas.find(OFFSETS_TOPIC, partition)
        if isinstance(found, ErrorCode):
            return found
        return OffsetsLog(found, replicas, log_manager, flusher, clock)

    def make_shard(shard_timers: ShardTimers) -> GroupShard:
        groups = Groups(shard_timers, lambda: group_settings, clock, new_uuid)
        return GroupShard(groups, offset_settings=lambda: offset_settings, clock=clock)

    coordinator = GroupCoordinator(
        CoordinatorPorts(open_log, make_shard, background, clock, timers, call_soon, lambda: cache.topics),
        RuntimeSettings(
            commit_timeout_ms=config.get_int("offsets.commit.timeout.ms"),
            load_buffer_bytes=config.get_int("offsets.load.buffer.size"),
            codec=config.get_int("offsets.topic.compression.codec"),
        ),
    )
    offsets_topic = OffsetsTopic(coordinator, creation, cache, replicas, config, is_alone=is_alone)
    return GroupCoordination(coordinator, offsets_topic)
