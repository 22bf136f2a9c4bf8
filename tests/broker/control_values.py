"""Control requests for tests: values with the usual stamp."""

from ottla.core.cluster import BrokerEndpoint, BrokerInfo, PartitionState, TopicImage
from ottla.core.control import (
    ControlAnswer,
    ControlRequest,
    ControlStamp,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrTopic,
    StoppedReplica,
    StopReplicas,
    UpdateMetadata,
)
from ottla.core.types import TopicPartition
from tests.broker.rig import BROKER_ID, LISTENER, Rig

OTHER = 2
TOPIC_ID = b"\x01" * 16


def stamp(controller_epoch: int = 5, *, broker_epoch: int = 10, controller_id: int = OTHER) -> ControlStamp:
    return ControlStamp(controller_id, controller_epoch, broker_epoch)


def led_by(leader: int, epoch: int = 0, *, isr: tuple[int, ...] = (), version: int = 0) -> PartitionState:
    replicas = (BROKER_ID, OTHER)
    return PartitionState(leader, epoch, isr or replicas, replicas, version)


def leader_and_isr(
    states: dict[int, PartitionState],
    *,
    topic: str = "orders",
    topic_id: bytes = TOPIC_ID,
    configs: dict[str, str] | None = None,
    is_new: bool = True,
    is_full: bool = False,
    by: ControlStamp | None = None,
) -> LeaderAndIsr:
    entries = tuple(LeaderAndIsrPartition(partition, state, is_new) for partition, state in states.items())
    return LeaderAndIsr(by or stamp(), (LeaderAndIsrTopic(topic, topic_id, configs or {}, entries),), is_full)


def stop(*partitions: int, deletes: bool, epoch: int = -1, topic: str = "orders") -> StopReplicas:
    return StopReplicas(
        stamp(), tuple(StoppedReplica(TopicPartition(topic, one), epoch, deletes) for one in partitions)
    )


def broker(broker_id: int, *, port: int = 9092, epoch: int = 1, listener: str = LISTENER) -> BrokerInfo:
    return BrokerInfo(broker_id, (BrokerEndpoint(listener, f"broker{broker_id}.test", port),), None, epoch)


def update_metadata(
    *topics: TopicImage,
    brokers: tuple[BrokerInfo, ...] = (broker(BROKER_ID), broker(OTHER)),
    deleted: tuple[str, ...] = (),
    is_full: bool = False,
    by: ControlStamp | None = None,
) -> UpdateMetadata:
    return UpdateMetadata(by or stamp(), brokers, topics, deleted, is_full)


def image(
    states: dict[int, PartitionState], *, name: str = "orders", topic_id: bytes = TOPIC_ID, **configs: str
) -> TopicImage:
    return TopicImage(name, topic_id, {key.replace("_", "."): value for key, value in configs.items()}, states)


def carry_out(rig: Rig, request: ControlRequest) -> ControlAnswer:
    """The broker's answer, when it has one."""
    answers: list[ControlAnswer] = []
    rig.local_topics.handle(request, answers.append)
    rig.settle()
    (answer,) = answers
    return answer
