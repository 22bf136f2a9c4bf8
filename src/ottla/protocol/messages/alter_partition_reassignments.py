"""AlterPartitionReassignments, API key 45.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class ReassignablePartition(Message):
    __slots__ = ("partition_index", "replicas")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (0, 1), default=0),
        # The replicas to place the partitions on, or null to cancel a pending reassignment for this partition.
        Field("replicas", "[]int32", (0, 1), nullable_versions=(0, 1)),
    )

    def __init__(self, *, partition_index: int = 0, replicas: list[int] | None = None) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class ReassignableTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 1), default=""),
        # The partitions to reassign.
        Field("partitions", "[]struct", (0, 1), struct=ReassignablePartition),
    )

    def __init__(self, *, name: str = "", partitions: list[ReassignablePartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AlterPartitionReassignmentsRequest(ApiMessage):
    __slots__ = ("allow_replication_factor_change", "timeout_ms", "topics")

    API_KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The time in ms to wait for the request to complete.
        Field("timeout_ms", "int32", (0, 1), default=60000),
        # The option indicating whether changing the replication factor of any given partition as part of this
        # request is a valid move.
        Field("allow_replication_factor_change", "bool", (1, 1), default=True),
        # The topics to reassign.
        Field("topics", "[]struct", (0, 1), struct=ReassignableTopic),
    )

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = [] if topics is None else topics


class ReassignablePartitionResponse(Message):
    __slots__ = ("error_code", "error_message", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (0, 1), default=0),
        # The error code for this partition, or 0 if there was no error.
        Field("error_code", "int16", (0, 1), default=0),
        # The error message for this partition, or null if there was no error.
        Field("error_message", "string", (0, 1), nullable_versions=(0, 1), default=""),
    )

    def __init__(self, *, partition_index: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class ReassignableTopicResponse(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 1), default=""),
        # The responses to partitions to reassign.
        Field("partitions", "[]struct", (0, 1), struct=ReassignablePartitionResponse),
    )

    def __init__(self, *, name: str = "", partitions: list[ReassignablePartitionResponse] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AlterPartitionReassignmentsResponse(ApiMessage):
    __slots__ = ("allow_replication_factor_change", "error_code", "error_message", "responses", "throttle_time_ms")

    API_KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 1), default=0),
        # The option indicating whether changing the replication factor of any given partition as part of the
        # request was allowed.
        Field("allow_replication_factor_change", "bool", (1, 1), default=True),
        # The top-level error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 1), default=0),
        # The top-level error message, or null if there was no error.
        Field("error_message", "string", (0, 1), nullable_versions=(0, 1), default=""),
        # The responses to topics to reassign.
        Field("responses", "[]struct", (0, 1), struct=ReassignableTopicResponse),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[ReassignableTopicResponse] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is None else responses
