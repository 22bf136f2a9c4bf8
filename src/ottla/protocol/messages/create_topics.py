"""CreateTopics, API key 19.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message


class CreatableReplicaAssignment(Message):
    __slots__ = ("broker_ids", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (2, 7), default=0),
        # The brokers to place the partition on.
        Field("broker_ids", "[]int32", (2, 7)),
    )

    def __init__(self, *, partition_index: int = 0, broker_ids: list[int] | None = None) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is None else broker_ids


class CreatableTopicConfig(Message):
    __slots__ = ("name", "value")

    FIELDS = (
        # The configuration name.
        Field("name", "string", (2, 7), default=""),
        # The configuration value.
        Field("value", "string", (2, 7), nullable_versions=(2, 7), default=""),
    )

    def __init__(self, *, name: str = "", value: str | None = "") -> None:
        self.name = name
        self.value = value


class CreatableTopic(Message):
    __slots__ = ("assignments", "configs", "name", "num_partitions", "replication_factor")

    FIELDS = (
        # The topic name.
        Field("name", "string", (2, 7), default=""),
        # The number of partitions to create in the topic, or -1 if we are either specifying a manual partition
        # assignment or using the default partitions.
        Field("num_partitions", "int32", (2, 7), default=0),
        # The number of replicas to create for each partition in the topic, or -1 if we are either specifying a
        # manual partition assignment or using the default replication factor.
        Field("replication_factor", "int16", (2, 7), default=0),
        # The manual partition assignment, or the empty array if we are using automatic assignment.
        Field("assignments", "[]struct", (2, 7), struct=CreatableReplicaAssignment),
        # The custom topic configurations to set.
        Field("configs", "[]struct", (2, 7), struct=CreatableTopicConfig),
    )

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] | None = None,
        configs: list[CreatableTopicConfig] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is None else assignments
        self.configs = [] if configs is None else configs


class CreateTopicsRequest(ApiMessage):
    __slots__ = ("timeout_ms", "topics", "validate_only")

    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_SINCE = 5
    FIELDS = (
        # The topics to create.
        Field("topics", "[]struct", (2, 7), struct=CreatableTopic),
        # How long to wait in milliseconds before timing out the request.
        Field("timeout_ms", "int32", (2, 7), default=60000),
        # If true, check that the topics can be created as specified, but don't create anything.
        Field("validate_only", "bool", (2, 7), default=False),
    )

    def __init__(
        self, *, topics: list[CreatableTopic] | None = None, timeout_ms: int = 60000, validate_only: bool = False
    ) -> None:
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatableTopicConfigs(Message):
    __slots__ = ("config_source", "is_sensitive", "name", "read_only", "value")

    FIELDS = (
        # The configuration name.
        Field("name", "string", (5, 7), default=""),
        # The configuration value.
        Field("value", "string", (5, 7), nullable_versions=(5, 7), default=""),
        # True if the configuration is read-only.
        Field("read_only", "bool", (5, 7), default=False),
        # The configuration source.
        Field("config_source", "int8", (5, 7), default=-1),
        # True if this configuration is sensitive.
        Field("is_sensitive", "bool", (5, 7), default=False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(Message):
    __slots__ = (
        "configs",
        "error_code",
        "error_message",
        "name",
        "num_partitions",
        "replication_factor",
        "topic_config_error_code",
        "topic_id",
    )

    FIELDS = (
        # The topic name.
        Field("name", "string", (2, 7), default=""),
        # The unique topic ID.
        Field("topic_id", "uuid", (7, 7), default=ZERO_UUID),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (2, 7), default=0),
        # The error message, or null if there was no error.
        Field("error_message", "string", (2, 7), nullable_versions=(2, 7), default=""),
        # Optional topic config error returned if configs are not returned in the response.
        Field("topic_config_error_code", "int16", (5, 7), tag=0, tagged_versions=(5, 7), default=0),
        # Number of partitions of the topic.
        Field("num_partitions", "int32", (5, 7), default=-1),
        # Replication factor of the topic.
        Field("replication_factor", "int16", (5, 7), default=-1),
        # Configuration of the topic.
        Field("configs", "[]struct", (5, 7), nullable_versions=(5, 7), struct=CreatableTopicConfigs),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = configs


class CreateTopicsResponse(ApiMessage):
    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_SINCE = 5
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (2, 7), default=0),
        # Results for each topic we tried to create.
        Field("topics", "[]struct", (2, 7), struct=CreatableTopicResult),
    )

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[CreatableTopicResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
