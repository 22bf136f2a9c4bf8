"""Fetch, API key 1.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message


class FetchPartition(Message):
    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "replica_directory_id",
    )

    FIELDS = (
        # The partition index.
        Field("partition", "int32", (4, 18), default=0),
        # The current leader epoch of the partition.
        Field("current_leader_epoch", "int32", (9, 18), default=-1),
        # The message offset.
        Field("fetch_offset", "int64", (4, 18), default=0),
        # The epoch of the last fetched record or -1 if there is none.
        Field("last_fetched_epoch", "int32", (12, 18), default=-1),
        # The earliest available offset of the follower replica.
        Field("log_start_offset", "int64", (5, 18), default=-1),
        # The maximum bytes to fetch from this partition.
        Field("partition_max_bytes", "int32", (4, 18), default=0),
        # The directory id of the follower fetching.
        Field("replica_directory_id", "uuid", (17, 18), tag=0, tagged_versions=(17, 18), default=ZERO_UUID),
        # The high-watermark known by the replica.
        Field("high_watermark", "int64", (18, 18), tag=1, tagged_versions=(18, 18), default=9223372036854775807),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchTopic(Message):
    __slots__ = ("partitions", "topic", "topic_id")

    FIELDS = (
        # The unique topic ID.
        Field("topic_id", "uuid", (13, 18), default=ZERO_UUID),
        # The name of the topic to fetch.
        Field("topic", "string", (4, 12), default=""),
        # The partitions to fetch.
        Field("partitions", "[]struct", (4, 18), struct=FetchPartition),
    )

    def __init__(
        self, *, topic_id: bytes = ZERO_UUID, topic: str = "", partitions: list[FetchPartition] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class ReplicaState(Message):
    __slots__ = ("replica_epoch", "replica_id")

    FIELDS = (
        # The replica ID of the follower, or -1 if this request is from a consumer.
        Field("replica_id", "int32", (15, 18), default=-1),
        # The epoch of this follower, or -1 if not available.
        Field("replica_epoch", "int64", (15, 18), default=-1),
    )

    def __init__(self, *, replica_id: int = -1, replica_epoch: int = -1) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class ForgottenTopic(Message):
    __slots__ = ("partitions", "topic", "topic_id")

    FIELDS = (
        # The unique topic ID.
        Field("topic_id", "uuid", (13, 18), default=ZERO_UUID),
        # The topic name.
        Field("topic", "string", (7, 12), default=""),
        # The partitions indexes to forget.
        Field("partitions", "[]int32", (7, 18)),
    )

    def __init__(self, *, topic_id: bytes = ZERO_UUID, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class FetchRequest(ApiMessage):
    __slots__ = (
        "cluster_id",
        "forgotten_topics_data",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_id",
        "replica_state",
        "session_epoch",
        "session_id",
        "topics",
    )

    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE_SINCE = 12
    FIELDS = (
        # The clusterId if known.
        Field("cluster_id", "string", (12, 18), nullable_versions=(12, 18), tag=0, tagged_versions=(12, 18)),
        # The state of the replica in the follower.
        Field("replica_state", "struct", (15, 18), tag=1, tagged_versions=(15, 18), struct=ReplicaState),
        # The broker ID of the follower, of -1 if this request is from a consumer.
        Field("replica_id", "int32", (4, 14), default=-1),
        # The maximum time in milliseconds to wait for the response.
        Field("max_wait_ms", "int32", (4, 18), default=0),
        # The minimum bytes to accumulate in the response.
        Field("min_bytes", "int32", (4, 18), default=0),
        # The maximum bytes to fetch.
        Field("max_bytes", "int32", (4, 18), default=2147483647),
        # This setting controls the visibility of transactional records.
        Field("isolation_level", "int8", (4, 18), default=0),
        # The fetch session ID.
        Field("session_id", "int32", (7, 18), default=0),
        # The fetch session epoch, which is used for ordering requests in a session.
        Field("session_epoch", "int32", (7, 18), default=-1),
        # The topics to fetch.
        Field("topics", "[]struct", (4, 18), struct=FetchTopic),
        # In an incremental fetch request, the partitions to remove.
        Field("forgotten_topics_data", "[]struct", (7, 18), struct=ForgottenTopic),
        # Rack ID of the consumer making this request.
        Field("rack_id", "string", (11, 18), default=""),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_state: ReplicaState | None = None,
        replica_id: int = -1,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic] | None = None,
        forgotten_topics_data: list[ForgottenTopic] | None = None,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_state = ReplicaState() if replica_state is None else replica_state
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = [] if topics is None else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is None else forgotten_topics_data
        self.rack_id = rack_id


class AbortedTransaction(Message):
    __slots__ = ("first_offset", "producer_id")

    FIELDS = (
        # The producer id associated with the aborted transaction.
        Field("producer_id", "int64", (4, 18), default=0),
        # The first offset in the aborted transaction.
        Field("first_offset", "int64", (4, 18), default=0),
    )

    def __init__(self, *, producer_id: int = 0, first_offset: int = 0) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class EpochEndOffset(Message):
    __slots__ = ("end_offset", "epoch")

    FIELDS = (
        # The largest epoch.
        Field("epoch", "int32", (12, 18), default=-1),
        # The end offset of the epoch.
        Field("end_offset", "int64", (12, 18), default=-1),
    )

    def __init__(self, *, epoch: int = -1, end_offset: int = -1) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_epoch", "leader_id")

    FIELDS = (
        # The ID of the current leader or -1 if the leader is unknown.
        Field("leader_id", "int32", (12, 18), default=-1),
        # The latest known leader epoch.
        Field("leader_epoch", "int32", (12, 18), default=-1),
    )

    def __init__(self, *, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class SnapshotId(Message):
    __slots__ = ("end_offset", "epoch")

    FIELDS = (
        # The end offset of the epoch.
        Field("end_offset", "int64", (12, 18), default=-1),
        # The largest epoch.
        Field("epoch", "int32", (12, 18), default=-1),
    )

    def __init__(self, *, end_offset: int = -1, epoch: int = -1) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class PartitionData(Message):
    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition_index",
        "preferred_read_replica",
        "records",
        "snapshot_id",
    )

    FIELDS = (
        # The partition index.
        Field("partition_index", "int32", (4, 18), default=0),
        # The error code, or 0 if there was no fetch error.
        Field("error_code", "int16", (4, 18), default=0),
        # The current high water mark.
        Field("high_watermark", "int64", (4, 18), default=0),
        # The last stable offset (or LSO) of the partition.
        Field("last_stable_offset", "int64", (4, 18), default=-1),
        # The current log start offset.
        Field("log_start_offset", "int64", (5, 18), default=-1),
        # In case divergence is detected based on the `LastFetchedEpoch` and `FetchOffset` in the request, this
        # field indicates the largest epoch and its end offset such that subsequent records are known to
        # diverge.
        Field("diverging_epoch", "struct", (12, 18), tag=0, tagged_versions=(12, 18), struct=EpochEndOffset),
        # The current leader of the partition.
        Field("current_leader", "struct", (12, 18), tag=1, tagged_versions=(12, 18), struct=LeaderIdAndEpoch),
        # In the case of fetching an offset less than the LogStartOffset, this is the end offset and epoch that
        # should be used in the FetchSnapshot request.
        Field("snapshot_id", "struct", (12, 18), tag=2, tagged_versions=(12, 18), struct=SnapshotId),
        # The aborted transactions.
        Field("aborted_transactions", "[]struct", (4, 18), nullable_versions=(4, 18), struct=AbortedTransaction),
        # The preferred read replica for the consumer to use on its next fetch request.
        Field("preferred_read_replica", "int32", (11, 18), default=-1),
        # The record data.
        Field("records", "records", (4, 18), nullable_versions=(4, 18)),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: list[AbortedTransaction] | None = None,
        preferred_read_replica: int = -1,
        records: bytes | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = EpochEndOffset() if diverging_epoch is None else diverging_epoch
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.snapshot_id = SnapshotId() if snapshot_id is None else snapshot_id
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(Message):
    __slots__ = ("partitions", "topic", "topic_id")

    FIELDS = (
        # The unique topic ID.
        Field("topic_id", "uuid", (13, 18), default=ZERO_UUID),
        # The topic name.
        Field("topic", "string", (4, 12), default=""),
        # The topic partitions.
        Field("partitions", "[]struct", (4, 18), struct=PartitionData),
    )

    def __init__(
        self, *, topic_id: bytes = ZERO_UUID, topic: str = "", partitions: list[PartitionData] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class NodeEndpoint(Message):
    __slots__ = ("host", "node_id", "port", "rack")

    FIELDS = (
        # The ID of the associated node.
        Field("node_id", "int32", (16, 18), default=0),
        # The node's hostname.
        Field("host", "string", (16, 18), default=""),
        # The node's port.
        Field("port", "int32", (16, 18), default=0),
        # The rack of the node, or null if it has not been assigned to a rack.
        Field("rack", "string", (16, 18), nullable_versions=(16, 18)),
    )

    def __init__(self, *, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class FetchResponse(ApiMessage):
    __slots__ = ("error_code", "node_endpoints", "responses", "session_id", "throttle_time_ms")

    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE_SINCE = 12
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (4, 18), default=0),
        # The top level response error code.
        Field("error_code", "int16", (7, 18), default=0),
        # The fetch session ID, or 0 if this is not part of a fetch session.
        Field("session_id", "int32", (7, 18), default=0),
        # The response topics.
        Field("responses", "[]struct", (4, 18), struct=FetchableTopicResponse),
        # Endpoints for all current-leaders enumerated in PartitionData, with errors NOT_LEADER_OR_FOLLOWER &
        # FENCED_LEADER_EPOCH.
        Field("node_endpoints", "[]struct", (16, 18), tag=0, tagged_versions=(16, 18), struct=NodeEndpoint),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] | None = None,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is None else responses
        self.node_endpoints = [] if node_endpoints is None else node_endpoints
