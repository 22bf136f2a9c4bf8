"""The APIs about topics, the cluster and the log directories, in the versions that are served."""

from ottla.broker.api import Api, MessageHandler
from ottla.broker.handlers.create_partitions import CreatePartitionsHandler
from ottla.broker.handlers.create_topics import CreateTopicsHandler
from ottla.broker.handlers.delete_topics import DeleteTopicsHandler
from ottla.broker.handlers.describe_cluster import DescribeClusterHandler
from ottla.broker.handlers.describe_log_dirs import DescribeLogDirsHandler
from ottla.broker.handlers.describe_topic_partitions import DescribeTopicPartitionsHandler
from ottla.broker.handlers.made_when_asked import made_when_asked
from ottla.broker.handlers.metadata import MetadataHandler
from ottla.broker.metadata_cache import MetadataCache
from ottla.controller.topics import Topics
from ottla.core.clock import Background
from ottla.core.config.config import BrokerConfig
from ottla.protocol.apis import ApiKey
from ottla.replication.replicas import Replicas
from ottla.storage.log_manager import LogManager


def topic_apis(
    config: BrokerConfig,
    *,
    cache: MetadataCache,
    topics: Topics,
    replicas: Replicas,
    log_manager: LogManager,
    background: Background,
) -> list[Api]:
    waiting = replicas.waiting
    metadata = MetadataHandler(cache, topics, auto_create=config.get_bool("auto.create.topics.enable"))
    pages = DescribeTopicPartitionsHandler(cache, partitions_max=config.get_int("max.request.partition.size.limit"))
    log_dirs = DescribeLogDirsHandler(log_manager, replicas, background)

    def make_elect() -> MessageHandler:
        from ottla.broker.handlers.elect_leaders import ElectLeadersHandler

        return ElectLeadersHandler(cache, replicas).handle

    def make_reassign() -> MessageHandler:
        from ottla.broker.handlers.alter_partition_reassignments import AlterPartitionReassignmentsHandler

        return AlterPartitionReassignmentsHandler(cache).handle

    def make_list_reassignments() -> MessageHandler:
        from ottla.broker.handlers.list_partition_reassignments import list_partition_reassignments

        return list_partition_reassignments

    return [
        Api(ApiKey.METADATA, 0, 12, metadata.handle),
        Api(ApiKey.CREATE_TOPICS, 2, 7, CreateTopicsHandler(topics, waiting).handle),
        Api(ApiKey.DELETE_TOPICS, 1, 6, DeleteTopicsHandler(cache, topics, waiting).handle),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3, CreatePartitionsHandler(topics.added_partitions, waiting).handle),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 1, DescribeClusterHandler(cache).handle),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, pages.handle),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, log_dirs.handle),
        Api(ApiKey.ELECT_LEADERS, 0, 2, made_when_asked(make_elect)),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, made_when_asked(make_reassign)),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, made_when_asked(make_list_reassignments)),
    ]
