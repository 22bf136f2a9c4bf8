"""DescribeLogDirs, API key 35.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DescribableLogDirTopic(Message):
    __slots__ = ("partitions", "topic")

    FIELDS = (
        # The topic name.
        Field("topic", "string", (1, 5), default=""),
        # The partition indexes.
        Field("partitions", "[]int32", (1, 5)),
    )

    def __init__(self, *, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class DescribeLogDirsRequest(ApiMessage):
    __slots__ = ("topics",)

    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # Each topic that we want to describe log directories for, or null for all topics.
        Field("topics", "[]struct", (1, 5), nullable_versions=(1, 5), struct=DescribableLogDirTopic),
    )

    def __init__(self, *, topics: list[DescribableLogDirTopic] | None = None) -> None:
        self.topics = topics


class DescribeLogDirsPartition(Message):
    __slots__ = ("is_future_key", "offset_lag", "partition_index", "partition_size")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (1, 5), default=0),
        # The size of the log segments in this partition in bytes.
        Field("partition_size", "int64", (1, 5), default=0),
        # The lag of the log's LEO w.r.t.
        Field("offset_lag", "int64", (1, 5), default=0),
        # True if this log is created by AlterReplicaLogDirsRequest and will replace the current log of the
        # replica in the future.
        Field("is_future_key", "bool", (1, 5), default=False),
    )

    def __init__(
        self, *, partition_index: int = 0, partition_size: int = 0, offset_lag: int = 0, is_future_key: bool = False
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (1, 5), default=""),
        # The partitions.
        Field("partitions", "[]struct", (1, 5), struct=DescribeLogDirsPartition),
    )

    def __init__(self, *, name: str = "", partitions: list[DescribeLogDirsPartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class DescribeLogDirsResult(Message):
    __slots__ = ("error_code", "is_cordoned", "log_dir", "topics", "total_bytes", "usable_bytes")

    FIELDS = (
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (1, 5), default=0),
        # The absolute log directory path.
        Field("log_dir", "string", (1, 5), default=""),
        # The topics.
        Field("topics", "[]struct", (1, 5), struct=DescribeLogDirsTopic),
        # The total size in bytes of the volume the log directory is in.
        Field("total_bytes", "int64", (4, 5), default=-1),
        # The usable size in bytes of the volume the log directory is in.
        Field("usable_bytes", "int64", (4, 5), default=-1),
        # True if this log directory is cordoned.
        Field("is_cordoned", "bool", (5, 5), default=False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] | None = None,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is None else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsResponse(ApiMessage):
    __slots__ = ("error_code", "results", "throttle_time_ms")

    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 5), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (3, 5), default=0),
        # The log directories.
        Field("results", "[]struct", (1, 5), struct=DescribeLogDirsResult),
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, results: list[DescribeLogDirsResult] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is None else results
