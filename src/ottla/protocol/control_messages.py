"""The messages between the controller and brokers: LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown.

Kafka's names and keys, but schemas of our own: brokers of one cluster run the same software, and ours need the version
of a partition's node and a topic's configs. `control_codec.py` makes the values of `core/control.py` of them.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message

_V0 = (0, 0)


class ConfigEntry(Message):
    __slots__ = ("name", "value")

    FIELDS = (
        Field("name", "string", _V0, default=""),
        Field("value", "string", _V0, default=""),
    )

    def __init__(self, *, name: str = "", value: str = "") -> None:
        self.name = name
        self.value = value


class PartitionStateEntry(Message):
    __slots__ = ("eligible", "is_new", "isr", "leader", "leader_epoch", "partition", "replicas", "version")

    FIELDS = (
        Field("partition", "int32", _V0, default=0),
        # -1: there is none.
        Field("leader", "int32", _V0, default=-1),
        Field("leader_epoch", "int32", _V0, default=0),
        # Of the partition's node in the coordination store.
        Field("version", "int32", _V0, default=0),
        # Nobody has ever appended to it. Not used in UpdateMetadata.
        Field("is_new", "bool", _V0, default=False),
        Field("isr", "[]int32", _V0),
        Field("replicas", "[]int32", _V0),
        # Not in sync, but with all that is committed; null: there never were any.
        Field("eligible", "[]int32", _V0, nullable_versions=_V0),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        leader: int = -1,
        leader_epoch: int = 0,
        version: int = 0,
        is_new: bool = False,
        isr: list[int] | None = None,
        replicas: list[int] | None = None,
        eligible: list[int] | None = None,
    ) -> None:
        self.partition = partition
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.version = version
        self.is_new = is_new
        self.isr = [] if isr is None else isr
        self.replicas = [] if replicas is None else replicas
        self.eligible = eligible


class TopicStates(Message):
    __slots__ = ("configs", "name", "partitions", "topic_id")

    FIELDS = (
        Field("name", "string", _V0, default=""),
        Field("topic_id", "uuid", _V0, default=ZERO_UUID),
        # All that was set for the topic.
        Field("configs", "[]struct", _V0, struct=ConfigEntry),
        Field("partitions", "[]struct", _V0, struct=PartitionStateEntry),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        configs: list[ConfigEntry] | None = None,
        partitions: list[PartitionStateEntry] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = [] if configs is None else configs
        self.partitions = [] if partitions is None else partitions


class PartitionError(Message):
    __slots__ = ("error_code", "partition", "topic")

    FIELDS = (
        Field("topic", "string", _V0, default=""),
        Field("partition", "int32", _V0, default=0),
        Field("error_code", "int16", _V0, default=0),
    )

    def __init__(self, *, topic: str = "", partition: int = 0, error_code: int = 0) -> None:
        self.topic = topic
        self.partition = partition
        self.error_code = error_code


# Who sends, and which life of the broker is meant: the same in the three requests of the controller.
_STAMP = (
    Field("controller_id", "int32", _V0, default=-1),
    Field("controller_epoch", "int32", _V0, default=-1),
    Field("broker_epoch", "int64", _V0, default=-1),
    # Grows with each request of the controller; the same again for one that is sent again.
    Field("number", "int64", _V0, default=0),
)

# The same in the answers to them: the error of the whole request, and the partitions that failed.
_ANSWER = (
    Field("error_code", "int16", _V0, default=0),
    Field("partitions", "[]struct", _V0, struct=PartitionError),
)


class LeaderAndIsrRequest(ApiMessage):
    __slots__ = ("broker_epoch", "controller_epoch", "controller_id", "is_full", "number", "topics")

    API_KEY = 4
    VERSIONS = _V0
    FLEXIBLE_SINCE = 0
    FIELDS = (
        *_STAMP,
        # These are all replicas of the broker.
        Field("is_full", "bool", _V0, default=False),
        Field("topics", "[]struct", _V0, struct=TopicStates),
    )

    def __init__(
        self,
        *,
        controller_id: int = -1,
        controller_epoch: int = -1,
        broker_epoch: int = -1,
        number: int = 0,
        is_full: bool = False,
        topics: list[TopicStates] | None = None,
    ) -> None:
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.broker_epoch = broker_epoch
        self.number = number
        self.is_full = is_full
        self.topics = [] if topics is None else topics


class LeaderAndIsrResponse(ApiMessage):
    __slots__ = ("error_code", "partitions")

    API_KEY = 4
    VERSIONS = _V0
    FLEXIBLE_SINCE = 0
    FIELDS = _ANSWER

    def __init__(self, *, error_code: int = 0, partitions: list[PartitionError] | None = None) -> None:
        self.error_code = error_code
        self.partitions = [] if partitions is None else partitions


class StoppedReplicaEntry(Message):
    __slots__ = ("deletes", "leader_epoch", "partition", "topic")

    FIELDS = (
        Field("topic", "string", _V0, default=""),
        Field("partition", "int32", _V0, default=0),
        Field("leader_epoch", "int32", _V0, default=-1),
        # Its log goes, too.
        Field("deletes", "bool", _V0, default=False),
    )

    def __init__(self, *, topic: str = "", partition: int = 0, leader_epoch: int = -1, deletes: bool = False) -> None:
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.deletes = deletes


class StopReplicaRequest(ApiMessage):
    __slots__ = ("broker_epoch", "controller_epoch", "controller_id", "number", "replicas")

    API_KEY = 5
    VERSIONS = _V0
    FLEXIBLE_SINCE = 0
    FIELDS = (*_STAMP, Field("replicas", "[]struct", _V0, struct=StoppedReplicaEntry))

    def __init__(
        self,
        *,
        controller_id: int = -1,
        controller_epoch: int = -1,
        broker_epoch: int = -1,
        number: int = 0,
        replicas: list[StoppedReplicaEntry] | None = None,
    ) -> None:
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.broker_epoch = broker_epoch
        self.number = number
        self.replicas = [] if replicas is None else replicas


class StopReplicaResponse(ApiMessage):
    __slots__ = ("error_code", "partitions")

    API_KEY = 5
    VERSIONS = _V0
    FLEXIBLE_SINCE = 0
    FIELDS = _ANSWER

    def __init__(self, *, error_code: int = 0, partitions: list[PartitionError] | None = None) -> None:
        self.error_code = error_code
        self.partitions = [] if partitions is None else partitions


class EndpointEntry(Message):
    __slots__ = ("host", "listener_name", "port")

    FIELDS = (
        Field("listener_name", "string", _V0, default=""),
        Field("host", "string", _V0, default=""),
        Field("port", "int32", _V0, default=0),
    )

    def __init__(self, *, listener_name: str = "", host: str = "", port: int = 0) -> None:
        self.listener_name = listener_name
        self.host = host
        self.port = port


class LiveBroker(Message):
    __slots__ = ("broker_id", "endpoints", "epoch", "rack")

    FIELDS = (
        Field("broker_id", "int32", _V0, default=0),
        Field("epoch", "int64", _V0, default=-1),
        Field("rack", "string", _V0, nullable_versions=_V0),
        Field("endpoints", "[]struct", _V0, struct=EndpointEntry),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        epoch: int = -1,
        rack: str | None = None,
        endpoints: list[EndpointEntry] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.rack = rack
        self.endpoints = [] if endpoints is None else endpoints


class UpdateMetadataRequest(ApiMessage):
    __slots__ = (
        "broker_epoch",
        "brokers",
        "controller_epoch",
        "controller_id",
        "deleted",
        "is_full",
        "number",
        "topics",
    )

    API_KEY = 6
    VERSIONS = _V0
    FLEXIBLE_SINCE = 0
    FIELDS = (
        *_STAMP,
        # These are all topics that there are.
        Field("is_full", "bool", _V0, default=False),
        # All that live.
        Field("brokers", "[]struct", _V0, struct=LiveBroker),
        Field("topics", "[]struct", _V0, struct=TopicStates),
        # Topics that clients must not see any more.
        Field("deleted", "[]string", _V0),
    )

    def __init__(
        self,
        *,
        controller_id: int = -1,
        controller_epoch: int = -1,
        broker_epoch: int = -1,
        number: int = 0,
        is_full: bool = False,
        brokers: list[LiveBroker] | None = None,
        topics: list[TopicStates] | None = None,
        deleted: list[str] | None = None,
    ) -> None:
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.broker_epoch = broker_epoch
        self.number = number
        self.is_full = is_full
        self.brokers = [] if brokers is None else brokers
        self.topics = [] if topics is None else topics
        self.deleted = [] if deleted is None else deleted


class UpdateMetadataResponse(ApiMessage):
    __slots__ = ("error_code", "partitions")

    API_KEY = 6
    VERSIONS = _V0
    FLEXIBLE_SINCE = 0
    FIELDS = _ANSWER

    def __init__(self, *, error_code: int = 0, partitions: list[PartitionError] | None = None) -> None:
        self.error_code = error_code
        self.partitions = [] if partitions is None else partitions


class ControlledShutdownRequest(ApiMessage):
    __slots__ = ("broker_epoch", "broker_id")

    API_KEY = 7
    VERSIONS = _V0
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The one that wants to stop.
        Field("broker_id", "int32", _V0, default=-1),
        Field("broker_epoch", "int64", _V0, default=-1),
    )

    def __init__(self, *, broker_id: int = -1, broker_epoch: int = -1) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class RemainingPartition(Message):
    __slots__ = ("partition", "topic")

    FIELDS = (
        Field("topic", "string", _V0, default=""),
        Field("partition", "int32", _V0, default=0),
    )

    def __init__(self, *, topic: str = "", partition: int = 0) -> None:
        self.topic = topic
        self.partition = partition


class ControlledShutdownResponse(ApiMessage):
    __slots__ = ("error_code", "remaining")

    API_KEY = 7
    VERSIONS = _V0
    FLEXIBLE_SINCE = 0
    FIELDS = (
        Field("error_code", "int16", _V0, default=0),
        # What the broker still leads.
        Field("remaining", "[]struct", _V0, struct=RemainingPartition),
    )

    def __init__(self, *, error_code: int = 0, remaining: list[RemainingPartition] | None = None) -> None:
        self.error_code = error_code
        self.remaining = [] if remaining is None else remaining
