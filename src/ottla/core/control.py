"""What the controller sends to brokers, and what they answer, as plain values (Kafka's AbstractControlRequest).

`protocol/control_codec.py` makes frames of them; a controller hands them to its own broker as they are.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ottla.core.cluster import BrokerInfo, PartitionState, TopicImage
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition


class ControlStamp(NamedTuple):
    """Who sends, and whom it means: a broker refuses an older controller (11) and other epochs of itself (77).

    `number` grows with each request of a controller to a broker; one that is sent again keeps its own. What comes after
    a later one was held up on a connection that the controller has given up, and is refused (11).
    """

    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch  # of the broker that it is sent to
    number: int = 0


class LeaderAndIsrPartition(NamedTuple):
    """The state of one partition, for a broker that holds a replica of it."""

    partition: int
    state: PartitionState
    is_new: bool  # nobody has ever appended to it: a missing log is made without it being a loss


class LeaderAndIsrTopic(NamedTuple):
    """Partitions of one topic; `configs` is all that was set for the topic, so that its logs can be made."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: tuple[LeaderAndIsrPartition, ...]


class LeaderAndIsr(NamedTuple):
    """Who leads, who follows. With `is_full` it names all replicas of the broker: logs of others are stray."""

    stamp: ControlStamp
    topics: tuple[LeaderAndIsrTopic, ...]
    is_full: bool = False


class UpdateMetadata(NamedTuple):
    """What clients see: all live brokers each time, and the topics that changed, with the partitions that changed.

    With `is_full` these are all topics there are. `deleted` names topics that clients must not see any more.
    """

    stamp: ControlStamp
    brokers: tuple[BrokerInfo, ...]
    topics: tuple[TopicImage, ...] = ()
    deleted: tuple[str, ...] = ()
    is_full: bool = False


class StoppedReplica(NamedTuple):
    """A replica that does not fetch any more; with `deletes` its log goes, too."""

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    deletes: bool


class StopReplicas(NamedTuple):
    stamp: ControlStamp
    replicas: tuple[StoppedReplica, ...]


class ControlledShutdown(NamedTuple):
    """From a broker to the controller: it wants to stop. Answered with the partitions that it still leads."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


ControlRequest: TypeAlias = LeaderAndIsr | UpdateMetadata | StopReplicas


class ControlAnswer(NamedTuple):
    """`error_code` refuses all of it; else each partition that failed is named with its error."""

    error_code: ErrorCode = ErrorCode.NONE
    partitions: Mapping[TopicPartition, ErrorCode] = {}


class ControlledShutdownAnswer(NamedTuple):
    error_code: ErrorCode = ErrorCode.NONE
    remaining: tuple[TopicPartition, ...] = ()
