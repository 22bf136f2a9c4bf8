"""ElectLeaders, API key 43.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class TopicPartitions(Message):
    __slots__ = ("partitions", "topic")

    FIELDS = (
        # The name of a topic.
        Field("topic", "string", (0, 2), default=""),
        # The partitions of this topic whose leader should be elected.
        Field("partitions", "[]int32", (0, 2)),
    )

    def __init__(self, *, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class ElectLeadersRequest(ApiMessage):
    __slots__ = ("election_type", "timeout_ms", "topic_partitions")

    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # Type of elections to conduct for the partition.
        Field("election_type", "int8", (1, 2), default=0),
        # The topic partitions to elect leaders.
        Field("topic_partitions", "[]struct", (0, 2), nullable_versions=(0, 2), struct=TopicPartitions),
        # The time in ms to wait for the election to complete.
        Field("timeout_ms", "int32", (0, 2), default=60000),
    )

    def __init__(
        self, *, election_type: int = 0, topic_partitions: list[TopicPartitions] | None = None, timeout_ms: int = 60000
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms


class PartitionResult(Message):
    __slots__ = ("error_code", "error_message", "partition_id")

    FIELDS = (
        # The partition id.
        Field("partition_id", "int32", (0, 2), default=0),
        # The result error, or zero if there was no error.
        Field("error_code", "int16", (0, 2), default=0),
        # The result message, or null if there was no error.
        Field("error_message", "string", (0, 2), nullable_versions=(0, 2), default=""),
    )

    def __init__(self, *, partition_id: int = 0, error_code: int = 0, error_message: str | None = "") -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(Message):
    __slots__ = ("partition_result", "topic")

    FIELDS = (
        # The topic name.
        Field("topic", "string", (0, 2), default=""),
        # The results for each partition.
        Field("partition_result", "[]struct", (0, 2), struct=PartitionResult),
    )

    def __init__(self, *, topic: str = "", partition_result: list[PartitionResult] | None = None) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is None else partition_result


class ElectLeadersResponse(ApiMessage):
    __slots__ = ("error_code", "replica_election_results", "throttle_time_ms")

    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 2), default=0),
        # The top level response error code.
        Field("error_code", "int16", (1, 2), default=0),
        # The election results, or an empty array if the requester did not have permission and the request asks
        # for all partitions.
        Field("replica_election_results", "[]struct", (0, 2), struct=ReplicaElectionResult),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = [] if replica_election_results is None else replica_election_results
