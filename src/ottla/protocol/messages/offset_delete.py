"""OffsetDelete, API key 47.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import NEVER_FLEXIBLE, ApiMessage, Field, Message


class OffsetDeleteRequestPartition(Message):
    __slots__ = ("partition_index",)

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (0, 0), default=0),
    )

    def __init__(self, *, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 0), default=""),
        # Each partition to delete offsets for.
        Field("partitions", "[]struct", (0, 0), struct=OffsetDeleteRequestPartition),
    )

    def __init__(self, *, name: str = "", partitions: list[OffsetDeleteRequestPartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetDeleteRequest(ApiMessage):
    __slots__ = ("group_id", "topics")

    API_KEY = 47
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = NEVER_FLEXIBLE
    FIELDS = (
        # The unique group identifier.
        Field("group_id", "string", (0, 0), default=""),
        # The topics to delete offsets for.
        Field("topics", "[]struct", (0, 0), struct=OffsetDeleteRequestTopic),
    )

    def __init__(self, *, group_id: str = "", topics: list[OffsetDeleteRequestTopic] | None = None) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics


class OffsetDeleteResponsePartition(Message):
    __slots__ = ("error_code", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (0, 0), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 0), default=0),
    )

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 0), default=""),
        # The responses for each partition in the topic.
        Field("partitions", "[]struct", (0, 0), struct=OffsetDeleteResponsePartition),
    )

    def __init__(self, *, name: str = "", partitions: list[OffsetDeleteResponsePartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class OffsetDeleteResponse(ApiMessage):
    __slots__ = ("error_code", "throttle_time_ms", "topics")

    API_KEY = 47
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = NEVER_FLEXIBLE
    FIELDS = (
        # The top-level error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 0), default=0),
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 0), default=0),
        # The responses for each topic.
        Field("topics", "[]struct", (0, 0), struct=OffsetDeleteResponseTopic),
    )

    def __init__(
        self, *, error_code: int = 0, throttle_time_ms: int = 0, topics: list[OffsetDeleteResponseTopic] | None = None
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
