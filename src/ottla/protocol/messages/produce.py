"""Produce, API key 0.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message


class PartitionProduceData(Message):
    __slots__ = ("index", "records")

    FIELDS = (
        # The partition index.
        Field("index", "int32", (3, 13), default=0),
        # The record data to be produced.
        Field("records", "records", (3, 13), nullable_versions=(3, 13)),
    )

    def __init__(self, *, index: int = 0, records: bytes | None = None) -> None:
        self.index = index
        self.records = records


class TopicProduceData(Message):
    __slots__ = ("name", "partition_data", "topic_id")

    FIELDS = (
        # The unique topic ID.
        Field("topic_id", "uuid", (13, 13), default=ZERO_UUID),
        # The topic name.
        Field("name", "string", (3, 12), default=""),
        # Each partition to produce to.
        Field("partition_data", "[]struct", (3, 13), struct=PartitionProduceData),
    )

    def __init__(
        self, *, topic_id: bytes = ZERO_UUID, name: str = "", partition_data: list[PartitionProduceData] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partition_data = [] if partition_data is None else partition_data


class ProduceRequest(ApiMessage):
    __slots__ = ("acks", "timeout_ms", "topic_data", "transactional_id")

    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_SINCE = 9
    FIELDS = (
        # The transactional ID, or null if the producer is not transactional.
        Field("transactional_id", "string", (3, 13), nullable_versions=(3, 13)),
        # The number of acknowledgments the producer requires the leader to have received before considering a
        # request complete.
        Field("acks", "int16", (3, 13), default=0),
        # The timeout to await a response in milliseconds.
        Field("timeout_ms", "int32", (3, 13), default=0),
        # Each topic to produce to.
        Field("topic_data", "[]struct", (3, 13), struct=TopicProduceData),
    )

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is None else topic_data


class BatchIndexAndErrorMessage(Message):
    __slots__ = ("batch_index", "batch_index_error_message")

    FIELDS = (
        # The batch index of the record that caused the batch to be dropped.
        Field("batch_index", "int32", (8, 13), default=0),
        # The error message of the record that caused the batch to be dropped.
        Field("batch_index_error_message", "string", (8, 13), nullable_versions=(8, 13)),
    )

    def __init__(self, *, batch_index: int = 0, batch_index_error_message: str | None = None) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_epoch", "leader_id")

    FIELDS = (
        # The ID of the current leader or -1 if the leader is unknown.
        Field("leader_id", "int32", (10, 13), default=-1),
        # The latest known leader epoch.
        Field("leader_epoch", "int32", (10, 13), default=-1),
    )

    def __init__(self, *, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(Message):
    __slots__ = (
        "base_offset",
        "current_leader",
        "error_code",
        "error_message",
        "index",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    FIELDS = (
        # The partition index.
        Field("index", "int32", (3, 13), default=0),
        # The error code, or 0 if there was no error.
        Field("error_code", "int16", (3, 13), default=0),
        # The base offset.
        Field("base_offset", "int64", (3, 13), default=0),
        # The timestamp returned by broker after appending the messages.
        Field("log_append_time_ms", "int64", (3, 13), default=-1),
        # The log start offset.
        Field("log_start_offset", "int64", (5, 13), default=-1),
        # The batch indices of records that caused the batch to be dropped.
        Field("record_errors", "[]struct", (8, 13), struct=BatchIndexAndErrorMessage),
        # The global error message summarizing the common root cause of the records that caused the batch to be
        # dropped.
        Field("error_message", "string", (8, 13), nullable_versions=(8, 13)),
        # The leader broker that the producer should use for future requests.
        Field("current_leader", "struct", (10, 13), tag=0, tagged_versions=(10, 13), struct=LeaderIdAndEpoch),
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] | None = None,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is None else record_errors
        self.error_message = error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader


class TopicProduceResponse(Message):
    __slots__ = ("name", "partition_responses", "topic_id")

    FIELDS = (
        # The unique topic ID.
        Field("topic_id", "uuid", (13, 13), default=ZERO_UUID),
        # The topic name.
        Field("name", "string", (3, 12), default=""),
        # Each partition that we produced to within the topic.
        Field("partition_responses", "[]struct", (3, 13), struct=PartitionProduceResponse),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partition_responses: list[PartitionProduceResponse] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partition_responses = [] if partition_responses is None else partition_responses


class NodeEndpoint(Message):
    __slots__ = ("host", "node_id", "port", "rack")

    FIELDS = (
        # The ID of the associated node.
        Field("node_id", "int32", (10, 13), default=0),
        # The node's hostname.
        Field("host", "string", (10, 13), default=""),
        # The node's port.
        Field("port", "int32", (10, 13), default=0),
        # The rack of the node, or null if it has not been assigned to a rack.
        Field("rack", "string", (10, 13), nullable_versions=(10, 13)),
    )

    def __init__(self, *, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ProduceResponse(ApiMessage):
    __slots__ = ("node_endpoints", "responses", "throttle_time_ms")

    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_SINCE = 9
    FIELDS = (
        # Each produce response.
        Field("responses", "[]struct", (3, 13), struct=TopicProduceResponse),
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (3, 13), default=0),
        # Endpoints for all current-leaders enumerated in PartitionProduceResponses, with errors
        # NOT_LEADER_OR_FOLLOWER.
        Field("node_endpoints", "[]struct", (10, 13), tag=0, tagged_versions=(10, 13), struct=NodeEndpoint),
    )

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse] | None = None,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.responses = [] if responses is None else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is None else node_endpoints
