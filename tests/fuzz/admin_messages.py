"""Sound requests of the APIs of administration; what they change is the fuzzed topic and nothing beside it."""

from collections.abc import Callable

from ottla.protocol.apis import ApiKey
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

_TOPIC, _BROKER, _LOGGER = 2, 4, 8
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def admin_messages(topic: str) -> dict[ApiKey, Callable[[int], ApiMessage]]:
    return {
        ApiKey.CREATE_PARTITIONS: lambda version: CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=topic, count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1])] * 2)
            ],
            timeout_ms=50,
            validate_only=True,  # a spoiled count that happens to be possible would be made, ten thousand folders of it
        ),
        ApiKey.DESCRIBE_CLUSTER: lambda version: DescribeClusterRequest(include_cluster_authorized_operations=True),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda version: DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=topic), TopicRequest(name="no-such-topic")],
            response_partition_limit=10,
            cursor=Cursor(topic_name=topic, partition_index=0),
        ),
        ApiKey.DESCRIBE_LOG_DIRS: lambda version: DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=topic, partitions=[0, 1])]
        ),
        ApiKey.ELECT_LEADERS: lambda version: ElectLeadersRequest(
            election_type=min(version, 1),
            topic_partitions=[TopicPartitions(topic=topic, partitions=[0, 1, 9])],
            timeout_ms=50,
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda version: AlterPartitionReassignmentsRequest(
            timeout_ms=50,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(partition_index=0, replicas=[1]),
                        ReassignablePartition(partition_index=1, replicas=[1, 2]),
                        ReassignablePartition(partition_index=0, replicas=None),
                    ],
                )
            ],
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda version: ListPartitionReassignmentsRequest(
            timeout_ms=50, topics=[ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0, 9])]
        ),
        ApiKey.LIST_CONFIG_RESOURCES: lambda version: ListConfigResourcesRequest(
            resource_types=[_TOPIC, _BROKER, _LOGGER] if version else []
        ),
        ApiKey.DESCRIBE_CONFIGS: lambda version: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=None),
                DescribeConfigsResource(
                    resource_type=_BROKER, resource_name="1", configuration_keys=["log.dirs", "broker.id"]
                ),
                DescribeConfigsResource(resource_type=_LOGGER, resource_name="1", configuration_keys=["ottla"]),
            ],
            include_synonyms=True,
            include_documentation=version >= 3,
        ),
        ApiKey.ALTER_CONFIGS: lambda version: alter_configs.AlterConfigsRequest(
            resources=[
                alter_configs.AlterConfigsResource(
                    resource_type=_TOPIC,
                    resource_name=topic,
                    configs=[
                        alter_configs.AlterableConfig(name="retention.ms", value="86400000"),
                        alter_configs.AlterableConfig(name="cleanup.policy", value="delete,compact"),
                    ],
                )
            ]
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda version: incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=_TOPIC,
                    resource_name=topic,
                    configs=[
                        _edit("cleanup.policy", "compact", _APPEND),
                        _edit("segment.bytes", "1000000", _SET),
                        _edit("retention.ms", None, _DELETE),
                    ],
                ),
                # Of the whole broker only what could do no harm to those beside us, whatever becomes of it.
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=_BROKER,
                    resource_name="1",
                    configs=[_edit("num.recovery.threads.per.data.dir", "2", _SET)],
                ),
            ]
        ),
    }


def _edit(name: str, value: str | None, operation: int) -> incremental_alter_configs.AlterableConfig:
    return incremental_alter_configs.AlterableConfig(name=name, value=value, config_operation=operation)
