"""The table of all APIs that this broker serves: a row with the key, the versions and how its handler is made.

ApiVersions answers from it. A handler's module is imported where the handler is made: at the start, or with the first
request of the few that ask for it. Groups are a tenth of a broker's start: a broker without groups never imports them.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.broker.api import AT_START, ON_FIRST_REQUEST, Api, Dispatcher, HotApi, HotHandler, MessageApi, MessageHandler
from ottla.broker.handlers.controller_only import controller_only
from ottla.broker.local_topics import LocalTopics
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.topic_creation import TopicCreator
from ottla.controller.configs import Configs
from ottla.controller.topics import Topics
from ottla.core.clock import Background, Clock
from ottla.core.config.config import BrokerConfig
from ottla.core.config.current import CurrentConfig
from ottla.core.control import ControlledShutdown, ControlledShutdownAnswer
from ottla.core.types import BrokerId
from ottla.protocol.apis import ApiKey
from ottla.replication.replicas import Replicas
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.broker.group_coordination import GroupCoordination
    from ottla.broker.handlers.elect_leaders import ElectLeaders
    from ottla.broker.metrics.snapshot import Sources

_SESSION_ID_MAX = 2**31 - 1

# Takes the leaders off a broker that wants to stop; calls back with what it still leads.
BeginShutdown: TypeAlias = Callable[[ControlledShutdown, Callable[[ControlledShutdownAnswer], None]], None]


def _table(make: "Handlers") -> list[Api]:
    """One row for each API. Where the versions of a hot one go up, so does its codec in `protocol/`."""
    return [
        # Produce 0-2 is refused with error 35, but librdkafka switches lz4 off where it is not advertised.
        HotApi(ApiKey.PRODUCE, 0, 11, make.produce, AT_START),
        HotApi(ApiKey.FETCH, 4, 16, make.fetch, AT_START),
        MessageApi(ApiKey.LIST_OFFSETS, 1, 8, make.list_offsets, AT_START),
        MessageApi(ApiKey.METADATA, 0, 12, make.metadata, AT_START),
        HotApi(ApiKey.OFFSET_COMMIT, 2, 9, make.offset_commit, ON_FIRST_REQUEST),
        MessageApi(ApiKey.OFFSET_FETCH, 1, 9, make.offset_fetch, ON_FIRST_REQUEST),
        MessageApi(ApiKey.FIND_COORDINATOR, 0, 4, make.find_coordinator, ON_FIRST_REQUEST),
        MessageApi(ApiKey.JOIN_GROUP, 0, 9, make.join_group, ON_FIRST_REQUEST),
        HotApi(ApiKey.HEARTBEAT, 0, 4, make.heartbeat, ON_FIRST_REQUEST),
        MessageApi(ApiKey.LEAVE_GROUP, 0, 5, make.leave_group, ON_FIRST_REQUEST),
        MessageApi(ApiKey.SYNC_GROUP, 0, 5, make.sync_group, ON_FIRST_REQUEST),
        MessageApi(ApiKey.DESCRIBE_GROUPS, 0, 6, make.describe_groups, ON_FIRST_REQUEST),
        MessageApi(ApiKey.LIST_GROUPS, 0, 5, make.list_groups, ON_FIRST_REQUEST),
        MessageApi(ApiKey.API_VERSIONS, 0, 4, make.api_versions, AT_START),
        MessageApi(ApiKey.CREATE_TOPICS, 2, 7, make.create_topics, AT_START),
        MessageApi(ApiKey.DELETE_TOPICS, 1, 6, make.delete_topics, AT_START),
        MessageApi(ApiKey.DELETE_RECORDS, 0, 2, make.delete_records, AT_START),
        MessageApi(ApiKey.INIT_PRODUCER_ID, 0, 4, make.init_producer_id, AT_START),
        MessageApi(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, make.offset_for_leader_epoch, ON_FIRST_REQUEST),
        MessageApi(ApiKey.DESCRIBE_CONFIGS, 1, 4, make.describe_configs, ON_FIRST_REQUEST),
        MessageApi(ApiKey.ALTER_CONFIGS, 0, 2, make.alter_configs, ON_FIRST_REQUEST),
        MessageApi(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, make.describe_log_dirs, AT_START),
        MessageApi(ApiKey.CREATE_PARTITIONS, 0, 3, make.create_partitions, AT_START),
        MessageApi(ApiKey.DELETE_GROUPS, 0, 2, make.delete_groups, ON_FIRST_REQUEST),
        MessageApi(ApiKey.ELECT_LEADERS, 0, 2, make.elect_leaders, ON_FIRST_REQUEST),
        MessageApi(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, make.incremental_alter_configs, ON_FIRST_REQUEST),
        MessageApi(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, make.alter_partition_reassignments, ON_FIRST_REQUEST),
        MessageApi(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, make.list_partition_reassignments, ON_FIRST_REQUEST),
        MessageApi(ApiKey.OFFSET_DELETE, 0, 0, make.offset_delete, ON_FIRST_REQUEST),
        MessageApi(ApiKey.DESCRIBE_CLUSTER, 0, 1, make.describe_cluster, AT_START),
        MessageApi(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, make.list_config_resources, ON_FIRST_REQUEST),
        MessageApi(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, make.describe_topic_partitions, AT_START),
    ]


def _table_between_brokers(make: "Handlers") -> list[Api]:
    """What the brokers of a cluster say to each other, on the inter-broker listener only."""
    return [
        MessageApi(ApiKey.LEADER_AND_ISR, 0, 0, make.leader_and_isr, ON_FIRST_REQUEST),
        MessageApi(ApiKey.STOP_REPLICA, 0, 0, make.stop_replica, ON_FIRST_REQUEST),
        MessageApi(ApiKey.UPDATE_METADATA, 0, 0, make.update_metadata, ON_FIRST_REQUEST),
        MessageApi(ApiKey.CONTROLLED_SHUTDOWN, 0, 0, make.controlled_shutdown, ON_FIRST_REQUEST),
    ]


class Handlers(NamedTuple):
    """Makes each handler from the parts of the broker that it works with. Owned by the dispatcher's table."""

    dispatcher: Dispatcher
    config: BrokerConfig
    replicas: Replicas
    cache: MetadataCache
    topics: Topics
    groups: "Callable[[], GroupCoordination]"  # made with the first call
    log_manager: LogManager
    producer_ids: ProducerIds
    background: Background
    clock: Clock
    random: Random
    configs: Configs
    current: CurrentConfig
    local_topics: LocalTopics
    creation: TopicCreator
    metrics: "Sources | None" = None
    # The controller's side of a controlled shutdown; None on a broker that never controls.
    begin_shutdown: BeginShutdown | None = None
    # The controller's elections; None on a broker that is alone.
    elect_leaders_by: "ElectLeaders | None" = None

    def serve_clients(self) -> None:
        """Fill the dispatcher's table of what every listener serves."""
        self.dispatcher.serve(_table(self))

    def serve_brokers(self) -> None:
        """The table of the inter-broker listener; not on a broker alone, which takes orders from nobody."""
        self.dispatcher.serve_brokers(_table_between_brokers(self), self.config.inter_broker_listener_name())

    # Records

    def produce(self) -> HotHandler:
        from ottla.broker.handlers.produce import ProduceHandler

        on_answered = None if self.metrics is None else self.metrics.requests.count_produced
        return ProduceHandler(self.replicas, self.background, self.clock, on_answered=on_answered).handle_frame

    def fetch(self) -> HotHandler:
        from ottla.broker.fetch_sessions import FetchSessions
        from ottla.broker.handlers.fetch import FetchHandler

        sessions = FetchSessions(
            slots=self.config.get_int("max.incremental.fetch.session.cache.slots"),
            partitions_max=self.config.get_int("ottla.fetch.session.partitions.max"),
            new_id=lambda: self.random.randint(1, _SESSION_ID_MAX),
        )
        on_answered = None
        if self.metrics is not None:
            self.metrics.fetch_sessions = sessions
            on_answered = self.metrics.requests.count_fetched
        return FetchHandler(
            self.replicas,
            self.cache,
            sessions,
            self.clock,
            max_bytes=self.config.get_int("fetch.max.bytes"),
            on_answered=on_answered,
        ).handle_frame

    def list_offsets(self) -> MessageHandler:
        from ottla.broker.handlers.list_offsets import ListOffsetsHandler

        return ListOffsetsHandler(self.replicas, self.background).handle

    def offset_for_leader_epoch(self) -> MessageHandler:
        from ottla.broker.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler

        return OffsetForLeaderEpochHandler(self.replicas).handle

    def delete_records(self) -> MessageHandler:
        from ottla.broker.handlers.delete_records import DeleteRecordsHandler

        return DeleteRecordsHandler(self.replicas).handle

    def init_producer_id(self) -> MessageHandler:
        from ottla.broker.handlers.init_producer_id import InitProducerIdHandler

        return InitProducerIdHandler(self.producer_ids).handle

    # The cluster and its topics

    def api_versions(self) -> MessageHandler:
        from ottla.broker.handlers.api_versions import ApiVersionsHandler

        return ApiVersionsHandler(self.dispatcher).handle

    def metadata(self) -> MessageHandler:
        from ottla.broker.handlers.metadata import MetadataHandler

        auto_create = self.config.get_bool("auto.create.topics.enable")
        return MetadataHandler(self.cache, self.creation, auto_create=auto_create).handle

    def create_topics(self) -> MessageHandler:
        from ottla.broker.handlers.create_topics import CreateTopicsHandler, refuse_create_topics

        handler = CreateTopicsHandler(self.topics, self.replicas.waiting)
        return controller_only(handler.handle, refuse_create_topics, self._is_controller)

    def delete_topics(self) -> MessageHandler:
        from ottla.broker.handlers.delete_topics import DeleteTopicsHandler, refuse_delete_topics

        handler = DeleteTopicsHandler(self.cache, self.topics, self.replicas.waiting)
        return controller_only(handler.handle, refuse_delete_topics, self._is_controller)

    def create_partitions(self) -> MessageHandler:
        from ottla.broker.handlers.create_partitions import CreatePartitionsHandler, refuse_create_partitions

        handler = CreatePartitionsHandler(self.topics, self.replicas.waiting)
        return controller_only(handler.handle, refuse_create_partitions, self._is_controller)

    def describe_cluster(self) -> MessageHandler:
        from ottla.broker.handlers.describe_cluster import DescribeClusterHandler

        return DescribeClusterHandler(self.cache).handle

    def describe_topic_partitions(self) -> MessageHandler:
        from ottla.broker.handlers.describe_topic_partitions import DescribeTopicPartitionsHandler

        partitions_max = self.config.get_int("max.request.partition.size.limit")
        return DescribeTopicPartitionsHandler(self.cache, partitions_max=partitions_max).handle

    def describe_log_dirs(self) -> MessageHandler:
        from ottla.broker.handlers.describe_log_dirs import DescribeLogDirsHandler

        return DescribeLogDirsHandler(self.log_manager, self.replicas, self.background).handle

    def elect_leaders(self) -> MessageHandler:
        from ottla.broker.handlers.elect_leaders import ElectLeadersHandler, refuse_elect_leaders

        handler = ElectLeadersHandler(self.cache, self.replicas, self.elect_leaders_by)
        return controller_only(handler.handle, refuse_elect_leaders, self._is_controller)

    def alter_partition_reassignments(self) -> MessageHandler:
        from ottla.broker.handlers.alter_partition_reassignments import (
            AlterPartitionReassignmentsHandler,
            refuse_alter_partition_reassignments,
        )

        handler = AlterPartitionReassignmentsHandler(self.cache)
        return controller_only(handler.handle, refuse_alter_partition_reassignments, self._is_controller)

    def list_partition_reassignments(self) -> MessageHandler:
        from ottla.broker.handlers.list_partition_reassignments import (
            list_partition_reassignments,
            refuse_list_partition_reassignments,
        )

        return controller_only(list_partition_reassignments, refuse_list_partition_reassignments, self._is_controller)

    # Between brokers

    def leader_and_isr(self) -> MessageHandler:
        from ottla.broker.handlers.leader_and_isr import LeaderAndIsrHandler

        return LeaderAndIsrHandler(self.local_topics).handle

    def stop_replica(self) -> MessageHandler:
        from ottla.broker.handlers.stop_replica import StopReplicaHandler

        return StopReplicaHandler(self.local_topics).handle

    def update_metadata(self) -> MessageHandler:
        from ottla.broker.handlers.update_metadata import UpdateMetadataHandler

        return UpdateMetadataHandler(self.local_topics).handle

    def controlled_shutdown(self) -> MessageHandler:
        from ottla.broker.handlers.controlled_shutdown import ControlledShutdownHandler

        return ControlledShutdownHandler(self.begin_shutdown, self._is_controller).handle

    # Configs

    def describe_configs(self) -> MessageHandler:
        from ottla.broker.handlers.describe_configs import DescribeConfigsHandler

        return DescribeConfigsHandler(self.configs, self.current, broker_id=self._broker_id).handle

    def alter_configs(self) -> MessageHandler:
        from ottla.broker.config_alterations import ConfigAlterations
        from ottla.broker.handlers.alter_configs import AlterConfigsHandler

        return AlterConfigsHandler(ConfigAlterations(self.configs, broker_id=self._broker_id)).handle

    def incremental_alter_configs(self) -> MessageHandler:
        from ottla.broker.config_alterations import ConfigAlterations
        from ottla.broker.handlers.incremental_alter_configs import IncrementalAlterConfigsHandler

        return IncrementalAlterConfigsHandler(ConfigAlterations(self.configs, broker_id=self._broker_id)).handle

    def list_config_resources(self) -> MessageHandler:
        from ottla.broker.handlers.list_config_resources import ListConfigResourcesHandler

        return ListConfigResourcesHandler(self.cache).handle

    # Groups and their offsets

    def find_coordinator(self) -> MessageHandler:
        from ottla.broker.handlers.find_coordinator import FindCoordinatorHandler

        coordinator, offsets_topic = self.groups()
        return FindCoordinatorHandler(coordinator, offsets_topic, self.cache, broker_id=self._broker_id).handle

    def join_group(self) -> MessageHandler:
        from ottla.broker.handlers.join_group import JoinGroupHandler

        return JoinGroupHandler(self.groups().coordinator).handle

    def sync_group(self) -> MessageHandler:
        from ottla.broker.handlers.sync_group import SyncGroupHandler

        return SyncGroupHandler(self.groups().coordinator).handle

    def heartbeat(self) -> HotHandler:
        from ottla.broker.handlers.heartbeat import HeartbeatHandler

        return HeartbeatHandler(self.groups().coordinator).handle_frame

    def leave_group(self) -> MessageHandler:
        from ottla.broker.handlers.leave_group import LeaveGroupHandler

        return LeaveGroupHandler(self.groups().coordinator).handle

    def describe_groups(self) -> MessageHandler:
        from ottla.broker.handlers.describe_groups import DescribeGroupsHandler

        return DescribeGroupsHandler(self.groups().coordinator).handle

    def list_groups(self) -> MessageHandler:
        from ottla.broker.handlers.list_groups import ListGroupsHandler

        return ListGroupsHandler(self.groups().coordinator).handle

    def delete_groups(self) -> MessageHandler:
        from ottla.broker.handlers.delete_groups import DeleteGroupsHandler

        return DeleteGroupsHandler(self.groups().coordinator).handle

    def offset_commit(self) -> HotHandler:
        from ottla.broker.handlers.offset_commit import OffsetCommitHandler

        return OffsetCommitHandler(self.groups().coordinator, self.cache).handle_frame

    def offset_fetch(self) -> MessageHandler:
        from ottla.broker.handlers.offset_fetch import OffsetFetchHandler

        return OffsetFetchHandler(self.groups().coordinator).handle

    def offset_delete(self) -> MessageHandler:
        from ottla.broker.handlers.offset_delete import OffsetDeleteHandler

        return OffsetDeleteHandler(self.groups().coordinator, self.cache).handle

    def _is_controller(self) -> bool:
        return self.cache.controller_id == self._broker_id

    @property
    def _broker_id(self) -> BrokerId:
        return self.config.get_int("broker.id")
