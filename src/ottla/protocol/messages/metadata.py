"""Metadata, API key 3.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message


class MetadataRequestTopic(Message):
    __slots__ = ("name", "topic_id")

    FIELDS = (
        # The topic id.
        Field("topic_id", "uuid", (10, 13), default=ZERO_UUID),
        # The topic name.
        Field("name", "string", (0, 13), nullable_versions=(10, 13), default=""),
    )

    def __init__(self, *, topic_id: bytes = ZERO_UUID, name: str | None = "") -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(ApiMessage):
    __slots__ = (
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
        "topics",
    )

    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE_SINCE = 9
    FIELDS = (
        # The topics to fetch metadata for.
        Field("topics", "[]struct", (0, 13), nullable_versions=(1, 13), struct=MetadataRequestTopic),
        # If this is true, the broker may auto-create topics that we requested which do not already exist, if it
        # is configured to do so.
        Field("allow_auto_topic_creation", "bool", (4, 13), default=True),
        # Whether to include cluster authorized operations.
        Field("include_cluster_authorized_operations", "bool", (8, 10), default=False),
        # Whether to include topic authorized operations.
        Field("include_topic_authorized_operations", "bool", (8, 13), default=False),
    )

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = None,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataResponseBroker(Message):
    __slots__ = ("host", "node_id", "port", "rack")

    FIELDS = (
        # The broker ID.
        Field("node_id", "int32", (0, 13), default=0),
        # The broker hostname.
        Field("host", "string", (0, 13), default=""),
        # The broker port.
        Field("port", "int32", (0, 13), default=0),
        # The rack of the broker, or null if it has not been assigned to a rack.
        Field("rack", "string", (1, 13), nullable_versions=(1, 13)),
    )

    def __init__(self, *, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponsePartition(Message):
    __slots__ = (
        "error_code",
        "isr_nodes",
        "leader_epoch",
        "leader_id",
        "offline_replicas",
        "partition_index",
        "replica_nodes",
    )

    FIELDS = (
        # The partition error, or 0 if there was no error.
        Field("error_code", "int16", (0, 13), default=0),
        # The partition index.
        Field("partition_index", "int32", (0, 13), default=0),
        # The ID of the leader broker.
        Field("leader_id", "int32", (0, 13), default=0),
        # The leader epoch of this partition.
        Field("leader_epoch", "int32", (7, 13), default=-1),
        # The set of all nodes that host this partition.
        Field("replica_nodes", "[]int32", (0, 13)),
        # The set of nodes that are in sync with the leader for this partition.
        Field("isr_nodes", "[]int32", (0, 13)),
        # The set of offline replicas of this partition.
        Field("offline_replicas", "[]int32", (5, 13)),
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
        offline_replicas: list[int] | None = None,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is None else replica_nodes
        self.isr_nodes = [] if isr_nodes is None else isr_nodes
        self.offline_replicas = [] if offline_replicas is None else offline_replicas


class MetadataResponseTopic(Message):
    __slots__ = ("error_code", "is_internal", "name", "partitions", "topic_authorized_operations", "topic_id")

    FIELDS = (
        # The topic error, or 0 if there was no error.
        Field("error_code", "int16", (0, 13), default=0),
        # The topic name.
        Field("name", "string", (0, 13), nullable_versions=(12, 13), default=""),
        # The topic id.
        Field("topic_id", "uuid", (10, 13), default=ZERO_UUID),
        # True if the topic is internal.
        Field("is_internal", "bool", (1, 13), default=False),
        # Each partition in the topic.
        Field("partitions", "[]struct", (0, 13), struct=MetadataResponsePartition),
        # 32-bit bitfield to represent authorized operations for this topic.
        Field("topic_authorized_operations", "int32", (8, 13), default=-2147483648),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] | None = None,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is None else partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(ApiMessage):
    __slots__ = (
        "brokers",
        "cluster_authorized_operations",
        "cluster_id",
        "controller_id",
        "error_code",
        "throttle_time_ms",
        "topics",
    )

    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE_SINCE = 9
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (3, 13), default=0),
        # A list of brokers present in the cluster.
        Field("brokers", "[]struct", (0, 13), struct=MetadataResponseBroker),
        # The cluster ID that responding broker belongs to.
        Field("cluster_id", "string", (2, 13), nullable_versions=(2, 13)),
        # The ID of the controller broker.
        Field("controller_id", "int32", (1, 13), default=-1),
        # Each topic in the response.
        Field("topics", "[]struct", (0, 13), struct=MetadataResponseTopic),
        # The top-level error code, or 0 if there was no error.
        Field("error_code", "int16", (13, 13), default=0),
        # 32-bit bitfield to represent authorized operations for this cluster.
        Field("cluster_authorized_operations", "int32", (8, 10), default=-2147483648),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] | None = None,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] | None = None,
        error_code: int = 0,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = [] if brokers is None else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = [] if topics is None else topics
        self.error_code = error_code
        self.cluster_authorized_operations = cluster_authorized_operations
