"""ConsumerProtocolSubscription: what consumers tell each other through the group's coordinator.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import NEVER_FLEXIBLE, Field, Message, VersionedMessage


class TopicPartition(Message):
    __slots__ = ("partitions", "topic")

    FIELDS = (
        # The topic name.
        Field("topic", "string", (1, 3), default=""),
        # The partition ids.
        Field("partitions", "[]int32", (1, 3)),
    )

    def __init__(self, *, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class ConsumerProtocolSubscription(VersionedMessage):
    __slots__ = ("generation_id", "owned_partitions", "rack_id", "topics", "user_data")

    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = NEVER_FLEXIBLE
    FIELDS = (
        # The topics that the member wants to consume.
        Field("topics", "[]string", (0, 3)),
        # User data that will be passed back to the consumer.
        Field("user_data", "bytes", (0, 3), nullable_versions=(0, 3)),
        # The partitions that the member owns.
        Field("owned_partitions", "[]struct", (1, 3), struct=TopicPartition),
        # The generation id of the member.
        Field("generation_id", "int32", (2, 3), default=-1),
        # The rack id of the member.
        Field("rack_id", "string", (3, 3), nullable_versions=(3, 3)),
    )

    def __init__(
        self,
        *,
        topics: list[str] | None = None,
        user_data: bytes | None = None,
        owned_partitions: list[TopicPartition] | None = None,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is None else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id
