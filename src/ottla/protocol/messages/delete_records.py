"""DeleteRecords, API key 21.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DeleteRecordsPartition(Message):
    __slots__ = ("offset", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (0, 2), default=0),
        # The deletion offset.
        Field("offset", "int64", (0, 2), default=0),
    )

    def __init__(self, *, partition_index: int = 0, offset: int = 0) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 2), default=""),
        # Each partition that we want to delete records from.
        Field("partitions", "[]struct", (0, 2), struct=DeleteRecordsPartition),
    )

    def __init__(self, *, name: str = "", partitions: list[DeleteRecordsPartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DeleteRecordsRequest(ApiMessage):
    __slots__ = ("timeout_ms", "topics")

    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # Each topic that we want to delete records from.
        Field("topics", "[]struct", (0, 2), struct=DeleteRecordsTopic),
        # How long to wait for the deletion to complete, in milliseconds.
        Field("timeout_ms", "int32", (0, 2), default=0),
    )

    def __init__(self, *, topics: list[DeleteRecordsTopic] | None = None, timeout_ms: int = 0) -> None:
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsPartitionResult(Message):
    __slots__ = ("error_code", "low_watermark", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (0, 2), default=0),
        # The partition low water mark.
        Field("low_watermark", "int64", (0, 2), default=0),
        # The deletion error code, or 0 if the deletion succeeded.
        Field("error_code", "int16", (0, 2), default=0),
    )

    def __init__(self, *, partition_index: int = 0, low_watermark: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (0, 2), default=""),
        # Each partition that we wanted to delete records from.
        Field("partitions", "[]struct", (0, 2), struct=DeleteRecordsPartitionResult),
    )

    def __init__(self, *, name: str = "", partitions: list[DeleteRecordsPartitionResult] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DeleteRecordsResponse(ApiMessage):
    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 2), default=0),
        # Each topic that we wanted to delete records from.
        Field("topics", "[]struct", (0, 2), struct=DeleteRecordsTopicResult),
    )

    def __init__(self, *, throttle_time_ms: int = 0, topics: list[DeleteRecordsTopicResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
