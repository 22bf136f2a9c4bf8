"""CreatePartitions, API key 37.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class CreatePartitionsAssignment(Message):
    __slots__ = ("broker_ids",)

    FIELDS = (
        # The assigned broker IDs.
        Field("broker_ids", "[]int32", (0, 3)),
    )

    def __init__(self, *, broker_ids: list[int] | None = None) -> None:
        self.broker_ids = [] if broker_ids is None else broker_ids


class CreatePartitionsTopic(Message):
    __slots__ = ("assignments", "count", "name")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 3), default=""),
        # The new partition count.
        Field("count", "int32", (0, 3), default=0),
        # The new partition assignments.
        Field("assignments", "[]struct", (0, 3), nullable_versions=(0, 3), struct=CreatePartitionsAssignment),
    )

    def __init__(
        self, *, name: str = "", count: int = 0, assignments: list[CreatePartitionsAssignment] | None = None
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = assignments


class CreatePartitionsRequest(ApiMessage):
    __slots__ = ("timeout_ms", "topics", "validate_only")

    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # Each topic that we want to create new partitions inside.
        Field("topics", "[]struct", (0, 3), struct=CreatePartitionsTopic),
        # The time in ms to wait for the partitions to be created.
        Field("timeout_ms", "int32", (0, 3), default=0),
        # If true, then validate the request, but don't actually increase the number of partitions.
        Field("validate_only", "bool", (0, 3), default=False),
    )

    def __init__(
        self, *, topics: list[CreatePartitionsTopic] | None = None, timeout_ms: int = 0, validate_only: bool = False
    ) -> None:
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopicResult(Message):
    __slots__ = ("error_code", "error_message", "name")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 3), default=""),
        # The result error, or zero if there was no error.
        Field("error_code", "int16", (0, 3), default=0),
        # The result message, or null if there was no error.
        Field("error_message", "string", (0, 3), nullable_versions=(0, 3)),
    )

    def __init__(self, *, name: str = "", error_code: int = 0, error_message: str | None = None) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(ApiMessage):
    __slots__ = ("results", "throttle_time_ms")

    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 3), default=0),
        # The partition creation results for each topic.
        Field("results", "[]struct", (0, 3), struct=CreatePartitionsTopicResult),
    )

    def __init__(self, *, throttle_time_ms: int = 0, results: list[CreatePartitionsTopicResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results
