"""UpdateFeatures, API key 57.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ApiMessage, Field, Message


class FeatureUpdateKey(Message):
    __slots__ = ("allow_downgrade", "feature", "max_version_level", "upgrade_type")

    FIELDS = (
        # The name of the finalized feature to be updated.
        Field("feature", "string", (0, 2), default=""),
        # The new maximum version level for the finalized feature.
        Field("max_version_level", "int16", (0, 2), default=0),
        # Determine which type of upgrade will be performed: 1 will perform an upgrade only (default), 2 is safe
        # downgrades only (lossless), 3 is unsafe downgrades (lossy).
        Field("upgrade_type", "int8", (1, 2), default=1),
        # DEPRECATED in version 1 (see DowngradeType).
        Field("allow_downgrade", "bool", (0, 0), default=False),
    )

    def __init__(
        self, *, feature: str = "", max_version_level: int = 0, upgrade_type: int = 1, allow_downgrade: bool = False
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.upgrade_type = upgrade_type
        self.allow_downgrade = allow_downgrade


class UpdateFeaturesRequest(ApiMessage):
    __slots__ = ("feature_updates", "timeout_ms", "validate_only")

    API_KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # How long to wait in milliseconds before timing out the request.
        Field("timeout_ms", "int32", (0, 2), default=60000),
        # The list of updates to finalized features.
        Field("feature_updates", "[]struct", (0, 2), struct=FeatureUpdateKey),
        # True if we should validate the request, but not perform the upgrade or downgrade.
        Field("validate_only", "bool", (1, 2), default=False),
    )

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[FeatureUpdateKey] | None = None,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = [] if feature_updates is None else feature_updates
        self.validate_only = validate_only


class UpdatableFeatureResult(Message):
    __slots__ = ("error_code", "error_message", "feature")

    FIELDS = (
        # The name of the finalized feature.
        Field("feature", "string", (0, 1), default=""),
        # The feature update error code or `0` if the feature update succeeded.
        Field("error_code", "int16", (0, 1), default=0),
        # The feature update error, or `null` if the feature update succeeded.
        Field("error_message", "string", (0, 1), nullable_versions=(0, 1), default=""),
    )

    def __init__(self, *, feature: str = "", error_code: int = 0, error_message: str | None = "") -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(ApiMessage):
    __slots__ = ("error_code", "error_message", "results", "throttle_time_ms")

    API_KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (0, 2), default=0),
        # The top-level error code, or `0` if there was no top-level error.
        Field("error_code", "int16", (0, 2), default=0),
        # The top-level error message, or `null` if there was no top-level error.
        Field("error_message", "string", (0, 2), nullable_versions=(0, 2), default=""),
        # Results for each feature update.
        Field("results", "[]struct", (0, 1), struct=UpdatableFeatureResult),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdatableFeatureResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is None else results
