"""ListPartitionReassignments, API key 46.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class ListPartitionReassignmentsTopics(Message):
    __slots__ = ("name", "partition_indexes")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 0), default=""),
        # The partitions to list partition reassignments for.
        Field("partition_indexes", "[]int32", (0, 0)),
    )

    def __init__(self, *, name: str = "", partition_indexes: list[int] | None = None) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class ListPartitionReassignmentsRequest(ApiMessage):
    __slots__ = ("timeout_ms", "topics")

    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The time in ms to wait for the request to complete.
        Field("timeout_ms", "int32", (0, 0), default=60000),
        # The topics to list partition reassignments for, or null to list everything.
        Field("topics", "[]struct", (0, 0), nullable_versions=(0, 0), struct=ListPartitionReassignmentsTopics),
    )

    def __init__(
        self, *, timeout_ms: int = 60000, topics: list[ListPartitionReassignmentsTopics] | None = None
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class OngoingPartitionReassignment(Message):
    __slots__ = ("adding_replicas", "partition_index", "removing_replicas", "replicas")

    FIELDS = (
        # The index of the partition.
        Field("partition_index", "int32", (0, 0), default=0),
        # The current replica set.
        Field("replicas", "[]int32", (0, 0)),
        # The set of replicas we are currently adding.
        Field("adding_replicas", "[]int32", (0, 0)),
        # The set of replicas we are currently removing.
        Field("removing_replicas", "[]int32", (0, 0)),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | None = None,
        adding_replicas: list[int] | None = None,
        removing_replicas: list[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = [] if replicas is None else replicas
        self.adding_replicas = [] if adding_replicas is None else adding_replicas
        self.removing_replicas = [] if removing_replicas is None else removing_replicas


class OngoingTopicReassignment(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 0), default=""),
        # The ongoing reassignments for each partition.
        Field("partitions", "[]struct", (0, 0), struct=OngoingPartitionReassignment),
    )

    def __init__(self, *, name: str = "", partitions: list[OngoingPartitionReassignment] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class ListPartitionReassignmentsResponse(ApiMessage):
    __slots__ = ("error_code", "error_message", "throttle_time_ms", "topics")

    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 0), default=0),
        # The top-level error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 0), default=0),
        # The top-level error message, or null if there was no error.
        Field("error_message", "string", (0, 0), nullable_versions=(0, 0), default=""),
        # The ongoing reassignments for each topic.
        Field("topics", "[]struct", (0, 0), struct=OngoingTopicReassignment),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is None else topics
