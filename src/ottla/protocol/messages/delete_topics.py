"""DeleteTopics, API key 20.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import ZERO_UUID, ApiMessage, Field, Message


class DeleteTopicState(Message):
    __slots__ = ("name", "topic_id")

    FIELDS = (
        # The topic name.
        Field("name", "string", (6, 6), nullable_versions=(6, 6)),
        # The unique topic ID.
        Field("topic_id", "uuid", (6, 6), default=ZERO_UUID),
    )

    def __init__(self, *, name: str | None = None, topic_id: bytes = ZERO_UUID) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(ApiMessage):
    __slots__ = ("timeout_ms", "topic_names", "topics")

    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The name or topic ID of the topic.
        Field("topics", "[]struct", (6, 6), struct=DeleteTopicState),
        # The names of the topics to delete.
        Field("topic_names", "[]string", (1, 5)),
        # The length of time in milliseconds to wait for the deletions to complete.
        Field("timeout_ms", "int32", (1, 6), default=0),
    )

    def __init__(
        self, *, topics: list[DeleteTopicState] | None = None, topic_names: list[str] | None = None, timeout_ms: int = 0
    ) -> None:
        self.topics = [] if topics is None else topics
        self.topic_names = [] if topic_names is None else topic_names
        self.timeout_ms = timeout_ms


class DeletableTopicResult(Message):
    __slots__ = ("error_code", "error_message", "name", "topic_id")

    FIELDS = (
        # The topic name.
        Field("name", "string", (1, 6), nullable_versions=(6, 6), default=""),
        # The unique topic ID.
        Field("topic_id", "uuid", (6, 6), default=ZERO_UUID),
        # The deletion error, or 0 if the deletion succeeded.
        Field("error_code", "int16", (1, 6), default=0),
        # The error message, or null if there was no error.
        Field("error_message", "string", (5, 6), nullable_versions=(5, 6)),
    )

    def __init__(
        self,
        *,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(ApiMessage):
    __slots__ = ("responses", "throttle_time_ms")

    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if
        # the request did not violate any quota.
        Field("throttle_time_ms", "int32", (1, 6), default=0),
        # The results for each topic we tried to delete.
        Field("responses", "[]struct", (1, 6), struct=DeletableTopicResult),
    )

    def __init__(self, *, throttle_time_ms: int = 0, responses: list[DeletableTopicResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is None else responses
