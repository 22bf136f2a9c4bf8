"""ConsumerProtocolAssignment: what consumers tell each other through the group's coordinator.

Written by tools/generate_messages.py: change that, not this.
"""

from ottla.protocol.message import NEVER_FLEXIBLE, Field, Message, VersionedMessage


class TopicPartition(Message):
    __slots__ = ("partitions", "topic")

    FIELDS = (
        # The topic name.
        Field("topic", "string", (0, 3), default=""),
        # The list of partitions assigned to this consumer.
        Field("partitions", "[]int32", (0, 3)),
    )

    def __init__(self, *, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class ConsumerProtocolAssignment(VersionedMessage):
    __slots__ = ("assigned_partitions", "user_data")

    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = NEVER_FLEXIBLE
    FIELDS = (
        # The list of topics and partitions assigned to this consumer.
        Field("assigned_partitions", "[]struct", (0, 3), struct=TopicPartition),
        # User data.
        Field("user_data", "bytes", (0, 3), nullable_versions=(0, 3)),
    )

    def __init__(
        self, *, assigned_partitions: list[TopicPartition] | None = None, user_data: bytes | None = None
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is None else assigned_partitions
        self.user_data = user_data
