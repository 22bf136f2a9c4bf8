"""ApiVersions, API key 18.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class ApiVersionsRequest(ApiMessage):
    __slots__ = ("client_software_name", "client_software_version")

    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The name of the client.
        Field("client_software_name", "string", (3, 4), default=""),
        # The version of the client.
        Field("client_software_version", "string", (3, 4), default=""),
    )

    def __init__(self, *, client_software_name: str = "", client_software_version: str = "") -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version


class ApiVersion(Message):
    __slots__ = ("api_key", "max_version", "min_version")

    FIELDS = (
        # The API index.
        Field("api_key", "int16", (0, 4), default=0),
        # The minimum supported version, inclusive.
        Field("min_version", "int16", (0, 4), default=0),
        # The maximum supported version, inclusive.
        Field("max_version", "int16", (0, 4), default=0),
    )

    def __init__(self, *, api_key: int = 0, min_version: int = 0, max_version: int = 0) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Message):
    __slots__ = ("max_version", "min_version", "name")

    FIELDS = (
        # The name of the feature.
        Field("name", "string", (3, 4), default=""),
        # The minimum supported version for the feature.
        Field("min_version", "int16", (3, 4), default=0),
        # The maximum supported version for the feature.
        Field("max_version", "int16", (3, 4), default=0),
    )

    def __init__(self, *, name: str = "", min_version: int = 0, max_version: int = 0) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Message):
    __slots__ = ("max_version_level", "min_version_level", "name")

    FIELDS = (
        # The name of the feature.
        Field("name", "string", (3, 4), default=""),
        # The cluster-wide finalized max version level for the feature.
        Field("max_version_level", "int16", (3, 4), default=0),
        # The cluster-wide finalized min version level for the feature.
        Field("min_version_level", "int16", (3, 4), default=0),
    )

    def __init__(self, *, name: str = "", max_version_level: int = 0, min_version_level: int = 0) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(ApiMessage):
    __slots__ = (
        "api_keys",
        "error_code",
        "finalized_features",
        "finalized_features_epoch",
        "supported_features",
        "throttle_time_ms",
        "zk_migration_ready",
    )

    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        # The top-level error code.
        Field("error_code", "int16", (0, 4), default=0),
        # The APIs supported by the broker.
        Field("api_keys", "[]struct", (0, 4), struct=ApiVersion),
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 4), default=0),
        # Features supported by the broker.
        Field("supported_features", "[]struct", (3, 4), tag=0, tagged_versions=(3, 4), struct=SupportedFeatureKey),
        # The monotonically increasing epoch for the finalized features information.
        Field("finalized_features_epoch", "int64", (3, 4), tag=1, tagged_versions=(3, 4), default=-1),
        # List of cluster-wide finalized features.
        Field("finalized_features", "[]struct", (3, 4), tag=2, tagged_versions=(3, 4), struct=FinalizedFeatureKey),
        # Set by a KRaft controller if the required configurations for ZK migration are present.
        Field("zk_migration_ready", "bool", (3, 4), tag=3, tagged_versions=(3, 4), default=False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersion] | None = None,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] | None = None,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] | None = None,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is None else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is None else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is None else finalized_features
        self.zk_migration_ready = zk_migration_ready
