"""DescribeCluster, API key 60.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class DescribeClusterRequest(ApiMessage):
    __slots__ = ("endpoint_type", "include_cluster_authorized_operations", "include_fenced_brokers")

    API_KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # Whether to include cluster authorized operations.
        Field("include_cluster_authorized_operations", "bool", (0, 2), default=False),
        # The endpoint type to describe.
        Field("endpoint_type", "int8", (1, 2), default=1),
        # Whether to include fenced brokers when listing brokers.
        Field("include_fenced_brokers", "bool", (2, 2), default=False),
    )

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class DescribeClusterBroker(Message):
    __slots__ = ("broker_id", "host", "is_fenced", "port", "rack")

    FIELDS = (
        # The broker ID.
        Field("broker_id", "int32", (0, 2), default=0),
        # The broker hostname.
        Field("host", "string", (0, 2), default=""),
        # The broker port.
        Field("port", "int32", (0, 2), default=0),
        # The rack of the broker, or null if it has not been assigned to a rack.
        Field("rack", "string", (0, 2), nullable_versions=(0, 2)),
        # Whether the broker is fenced.
        Field("is_fenced", "bool", (2, 2), default=False),
    )

    def __init__(
        self, *, broker_id: int = 0, host: str = "", port: int = 0, rack: str | None = None, is_fenced: bool = False
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


class DescribeClusterResponse(ApiMessage):
    __slots__ = (
        "brokers",
        "cluster_authorized_operations",
        "cluster_id",
        "controller_id",
        "endpoint_type",
        "error_code",
        "error_message",
        "throttle_time_ms",
    )

    API_KEY = 60
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 2), default=0),
        # The top-level error code, or 0 if there was no error.
        Field("error_code", "int16", (0, 2), default=0),
        # The top-level error message, or null if there was no error.
        Field("error_message", "string", (0, 2), nullable_versions=(0, 2)),
        # The endpoint type that was described.
        Field("endpoint_type", "int8", (1, 2), default=1),
        # The cluster ID that responding broker belongs to.
        Field("cluster_id", "string", (0, 2), default=""),
        # The ID of the controller.
        Field("controller_id", "int32", (0, 2), default=-1),
        # Each broker in the response.
        Field("brokers", "[]struct", (0, 2), struct=DescribeClusterBroker),
        # 32-bit bitfield to represent authorized operations for this cluster.
        Field("cluster_authorized_operations", "int32", (0, 2), default=-2147483648),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] | None = None,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = [] if brokers is None else brokers
        self.cluster_authorized_operations = cluster_authorized_operations
