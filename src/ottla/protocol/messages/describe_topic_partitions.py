"""DescribeTopicPartitions, API key 75.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message


class TopicRequest(Message):
    __slots__ = ("name",)

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 0), default=""),
    )

    def __init__(self, *, name: str = "") -> None:
        self.name = name


class Cursor(Message):
    __slots__ = ("partition_index", "topic_name")

    FIELDS = (
        # The name for the first topic to process.
        Field("topic_name", "string", (0, 0), default=""),
        # The partition index to start with.
        Field("partition_index", "int32", (0, 0), default=0),
    )

    def __init__(self, *, topic_name: str = "", partition_index: int = 0) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(ApiMessage):
    __slots__ = ("cursor", "response_partition_limit", "topics")

    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The topics to fetch details for.
        Field("topics", "[]struct", (0, 0), struct=TopicRequest),
        # The maximum number of partitions included in the response.
        Field("response_partition_limit", "int32", (0, 0), default=2000),
        # The first topic and partition index to fetch details for.
        Field("cursor", "struct", (0, 0), nullable_versions=(0, 0), struct=Cursor),
    )

    def __init__(
        self,
        *,
        topics: list[TopicRequest] | None = None,
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsResponsePartition(Message):
    __slots__ = (
        "eligible_leader_replicas",
        "error_code",
        "isr_nodes",
        "last_known_elr",
        "leader_epoch",
        "leader_id",
        "offline_replicas",
        "partition_index",
        "replica_nodes",
    )

    FIELDS = (
        # The partition error, or 0 if there was no error.
        Field("error_code", "int16", (0, 0), default=0),
        # The partition index.
        Field("partition_index", "int32", (0, 0), default=0),
        # The ID of the leader broker.
        Field("leader_id", "int32", (0, 0), default=0),
        # The leader epoch of this partition.
        Field("leader_epoch", "int32", (0, 0), default=-1),
        # The set of all nodes that host this partition.
        Field("replica_nodes", "[]int32", (0, 0)),
        # The set of nodes that are in sync with the leader for this partition.
        Field("isr_nodes", "[]int32", (0, 0)),
        # The new eligible leader replicas otherwise.
        Field("eligible_leader_replicas", "[]int32", (0, 0), nullable_versions=(0, 0)),
        # The last known ELR.
        Field("last_known_elr", "[]int32", (0, 0), nullable_versions=(0, 0)),
        # The set of offline replicas of this partition.
        Field("offline_replicas", "[]int32", (0, 0)),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] | None = None,
        isr_nodes: list[int] | None = None,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] | None = None,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is None else replica_nodes
        self.isr_nodes = [] if isr_nodes is None else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = [] if offline_replicas is None else offline_replicas


class DescribeTopicPartitionsResponseTopic(Message):
    __slots__ = ("error_code", "is_internal", "name", "partitions", "topic_authorized_operations", "topic_id")

    FIELDS = (
        # The topic error, or 0 if there was no error.
        Field("error_code", "int16", (0, 0), default=0),
        # The topic name.
        Field("name", "string", (0, 0), nullable_versions=(0, 0), default=""),
        # The topic id.
        Field("topic_id", "uuid", (0, 0), default=ZERO_UUID),
        # True if the topic is internal.
        Field("is_internal", "bool", (0, 0), default=False),
        # Each partition in the topic.
        Field("partitions", "[]struct", (0, 0), struct=DescribeTopicPartitionsResponsePartition),
        # 32-bit bitfield to represent authorized operations for this topic.
        Field("topic_authorized_operations", "int32", (0, 0), default=-2147483648),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] | None = None,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is None else partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsResponse(ApiMessage):
    __slots__ = ("next_cursor", "throttle_time_ms", "topics")

    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 0), default=0),
        # Each topic in the response.
        Field("topics", "[]struct", (0, 0), struct=DescribeTopicPartitionsResponseTopic),
        # The next topic and partition index to fetch details for.
        Field("next_cursor", "struct", (0, 0), nullable_versions=(0, 0), struct=Cursor),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] | None = None,
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
        self.next_cursor = next_cursor
