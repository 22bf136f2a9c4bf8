"""Types for the plain values that rooms pass to each other."""

from typing import NamedTuple, TypeAlias

Offset: TypeAlias = int
LeaderEpoch: TypeAlias = int
BrokerId: TypeAlias = int
BrokerEpoch: TypeAlias = int
ControllerEpoch: TypeAlias = int
ProducerId: TypeAlias = int
ProducerEpoch: TypeAlias = int
TimestampMs: TypeAlias = int

Buffer: TypeAlias = bytes | bytearray | memoryview

NO_TIMESTAMP_MS: TimestampMs = -1
NO_PRODUCER_ID: ProducerId = -1
NO_LEADER_EPOCH: LeaderEpoch = -1
NO_BROKER_EPOCH: BrokerEpoch = -1


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as the name of its folder."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
