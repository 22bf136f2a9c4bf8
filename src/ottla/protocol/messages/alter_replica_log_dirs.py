"""AlterReplicaLogDirs, API key 34.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class AlterReplicaLogDirTopic(Message):
    __slots__ = ("name", "partitions")

    FIELDS = (
        # The topic name.
        Field("name", "string", (1, 2), default=""),
        # The partition indexes.
        Field("partitions", "[]int32", (1, 2)),
    )

    def __init__(self, *, name: str = "", partitions: list[int] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AlterReplicaLogDir(Message):
    __slots__ = ("path", "topics")

    FIELDS = (
        # The absolute directory path.
        Field("path", "string", (1, 2), default=""),
        # The topics to add to the directory.
        Field("topics", "[]struct", (1, 2), struct=AlterReplicaLogDirTopic),
    )

    def __init__(self, *, path: str = "", topics: list[AlterReplicaLogDirTopic] | None = None) -> None:
        self.path = path
        self.topics = [] if topics is None else topics


class AlterReplicaLogDirsRequest(ApiMessage):
    __slots__ = ("dirs",)

    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The alterations to make for each directory.
        Field("dirs", "[]struct", (1, 2), struct=AlterReplicaLogDir),
    )

    def __init__(self, *, dirs: list[AlterReplicaLogDir] | None = None) -> None:
        self.dirs = [] if dirs is None else dirs


class AlterReplicaLogDirPartitionResult(Message):
    __slots__ = ("error_code", "partition_index")

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (1, 2), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (1, 2), default=0),
    )

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class AlterReplicaLogDirTopicResult(Message):
    __slots__ = ("partitions", "topic_name")

    FIELDS = (
        # The name of the topic.
        Field("topic_name", "string", (1, 2), default=""),
        # The results for each partition.
        Field("partitions", "[]struct", (1, 2), struct=AlterReplicaLogDirPartitionResult),
    )

    def __init__(
        self, *, topic_name: str = "", partitions: list[AlterReplicaLogDirPartitionResult] | None = None
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class AlterReplicaLogDirsResponse(ApiMessage):
    __slots__ = ("results", "throttle_time_ms")

    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
        # request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 2), default=0),
        # The results for each topic.
        Field("results", "[]struct", (1, 2), struct=AlterReplicaLogDirTopicResult),
    )

    def __init__(
        self, *, throttle_time_ms: int = 0, results: list[AlterReplicaLogDirTopicResult] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results
