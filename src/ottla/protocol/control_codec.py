"""Control requests and answers, as values, to and from the messages of `control_messages.py`."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla.core.cluster import BrokerEndpoint, BrokerInfo, PartitionState, TopicImage
from ottla.core.control import (
    ControlAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    ControlRequest,
    ControlStamp,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrTopic,
    StoppedReplica,
    StopReplicas,
    UpdateMetadata,
)
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.core.types import TopicPartition
from ottla.protocol.control_messages import (
    ConfigEntry,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    EndpointEntry,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LiveBroker,
    PartitionError,
    PartitionStateEntry,
    RemainingPartition,
    StoppedReplicaEntry,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicStates,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

CONTROL_VERSION: Final = 0  # the only one so far

ControlRequestMessage: TypeAlias = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
ControlResponseMessage: TypeAlias = LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse


def message_of(request: ControlRequest) -> ControlRequestMessage:
    """The message that carries a request of the controller."""
    if isinstance(request, LeaderAndIsr):
        return _leader_and_isr_message(request)
    if isinstance(request, StopReplicas):
        return _stop_replica_message(request)
    return _update_metadata_message(request)


def request_of(message: ControlRequestMessage) -> ControlRequest:
    """What a message of the controller says."""
    stamp = ControlStamp(message.controller_id, message.controller_epoch, message.broker_epoch, message.number)
    if isinstance(message, LeaderAndIsrRequest):
        return LeaderAndIsr(stamp, tuple([_leader_and_isr_topic(topic) for topic in message.topics]), message.is_full)
    if isinstance(message, StopReplicaRequest):
        stopped = [
            StoppedReplica(TopicPartition(entry.topic, entry.partition), entry.leader_epoch, entry.deletes)
            for entry in message.replicas
        ]
        return StopReplicas(stamp, tuple(stopped))
    return UpdateMetadata(
        stamp,
        brokers=tuple([_broker_info(broker) for broker in message.brokers]),
        topics=tuple([_topic_image(topic) for topic in message.topics]),
        deleted=tuple(message.deleted),
        is_full=message.is_full,
    )


def response_of(api_key: int, answer: ControlAnswer) -> ControlResponseMessage:
    """The message that carries a broker's answer to the request with this key."""
    return _RESPONSES[api_key](
        error_code=answer.error_code,
        partitions=[
            PartitionError(topic=topic_partition.topic, partition=topic_partition.partition, error_code=error_code)
            for topic_partition, error_code in answer.partitions.items()
        ],
    )


def answer_of(message: ControlResponseMessage) -> ControlAnswer:
    return ControlAnswer(
        error_code_of(message.error_code),
        {TopicPartition(one.topic, one.partition): error_code_of(one.error_code) for one in message.partitions},
    )


def shutdown_message(request: ControlledShutdown) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(broker_id=request.broker_id, broker_epoch=request.broker_epoch)


def shutdown_of(message: ControlledShutdownRequest) -> ControlledShutdown:
    return ControlledShutdown(message.broker_id, message.broker_epoch)


def shutdown_response(answer: ControlledShutdownAnswer) -> ControlledShutdownResponse:
    remaining = [RemainingPartition(topic=one.topic, partition=one.partition) for one in answer.remaining]
    return ControlledShutdownResponse(error_code=answer.error_code, remaining=remaining)


def shutdown_answer(message: ControlledShutdownResponse) -> ControlledShutdownAnswer:
    remaining = tuple([TopicPartition(one.topic, one.partition) for one in message.remaining])
    return ControlledShutdownAnswer(error_code_of(message.error_code), remaining)


def error_code_of(number: int) -> ErrorCode:
    """ProtocolViolation: Kafka has no such code."""
    try:
        return ErrorCode(number)
    except ValueError as error:
        raise ProtocolViolation(f"there is no error code {number}") from error


_RESPONSES: Final[Mapping[int, type[ControlResponseMessage]]] = {
    response.API_KEY: response for response in (LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse)
}


# Values to messages


def _leader_and_isr_message(request: LeaderAndIsr) -> LeaderAndIsrRequest:
    stamp = request.stamp
    return LeaderAndIsrRequest(
        controller_id=stamp.controller_id,
        controller_epoch=stamp.controller_epoch,
        broker_epoch=stamp.broker_epoch,
        number=stamp.number,
        is_full=request.is_full,
        topics=[
            TopicStates(
                name=topic.name,
                topic_id=topic.topic_id,
                configs=_config_entries(topic.configs),
                partitions=[_state_entry(one.partition, one.state, is_new=one.is_new) for one in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _stop_replica_message(request: StopReplicas) -> StopReplicaRequest:
    stamp = request.stamp
    return StopReplicaRequest(
        controller_id=stamp.controller_id,
        controller_epoch=stamp.controller_epoch,
        broker_epoch=stamp.broker_epoch,
        number=stamp.number,
        replicas=[
            StoppedReplicaEntry(
                topic=replica.topic_partition.topic,
                partition=replica.topic_partition.partition,
                leader_epoch=replica.leader_epoch,
                deletes=replica.deletes,
            )
            for replica in request.replicas
        ],
    )


def _update_metadata_message(request: UpdateMetadata) -> UpdateMetadataRequest:
    stamp = request.stamp
    return UpdateMetadataRequest(
        controller_id=stamp.controller_id,
        controller_epoch=stamp.controller_epoch,
        broker_epoch=stamp.broker_epoch,
        number=stamp.number,
        is_full=request.is_full,
        brokers=[
            LiveBroker(
                broker_id=broker.broker_id,
                epoch=broker.epoch,
                rack=broker.rack,
                endpoints=[
                    EndpointEntry(listener_name=one.listener_name, host=one.host, port=one.port)
                    for one in broker.endpoints
                ],
            )
            for broker in request.brokers
        ],
        topics=[
            TopicStates(
                name=image.name,
                topic_id=image.topic_id,
                configs=_config_entries(image.configs),
                partitions=[_state_entry(partition, state) for partition, state in image.partitions.items()],
            )
            for image in request.topics
        ],
        deleted=list(request.deleted),
    )


def _config_entries(configs: Mapping[str, str]) -> list[ConfigEntry]:
    return [ConfigEntry(name=name, value=value) for name, value in configs.items()]


def _state_entry(partition: int, state: PartitionState, *, is_new: bool = False) -> PartitionStateEntry:
    return PartitionStateEntry(
        partition=partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        version=state.version,
        is_new=is_new,
        isr=list(state.isr),
        replicas=list(state.replicas),
        eligible=None if state.eligible is None else list(state.eligible),
    )


# Messages to values


def _leader_and_isr_topic(topic: TopicStates) -> LeaderAndIsrTopic:
    partitions = [LeaderAndIsrPartition(one.partition, _partition_state(one), one.is_new) for one in topic.partitions]
    return LeaderAndIsrTopic(topic.name, topic.topic_id, _configs(topic), tuple(partitions))


def _topic_image(topic: TopicStates) -> TopicImage:
    partitions = {one.partition: _partition_state(one) for one in topic.partitions}
    return TopicImage(topic.name, topic.topic_id, _configs(topic), partitions)


def _configs(topic: TopicStates) -> dict[str, str]:
    return {entry.name: entry.value for entry in topic.configs}


def _partition_state(entry: PartitionStateEntry) -> PartitionState:
    eligible = None if entry.eligible is None else tuple(entry.eligible)
    isr, replicas = tuple(entry.isr), tuple(entry.replicas)
    return PartitionState(entry.leader, entry.leader_epoch, isr, replicas, entry.version, eligible)


def _broker_info(broker: LiveBroker) -> BrokerInfo:
    endpoints = tuple([BrokerEndpoint(one.listener_name, one.host, one.port) for one in broker.endpoints])
    return BrokerInfo(broker.broker_id, endpoints, broker.rack, broker.epoch)
