"""The tree of nodes and their JSON, with the paths and field names of Kafka's ZooKeeper era.

Paths, values as named tuples, and one encode and one decode for each kind of node. It reads and writes no store.
Decoding takes what older versions of Kafka wrote; a value that makes no sense raises `MalformedNodeError`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.coordination.node_json import JsonFields, MalformedNodeError, decode_uuid, encode_object, encode_uuid
from ottla.core.cluster import LossyReplica
from ottla.core.types import BrokerId, LeaderEpoch, ProducerId, TimestampMs, TopicPartition

BROKERS = "/brokers"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
BROKER_SEQUENCE_ID = "/brokers/seqid"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER = "/cluster"
CLUSTER_ID = "/cluster/id"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
ADMIN = "/admin"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION = "/isr_change_notification"
ISR_CHANGE_PREFIX = "/isr_change_notification/isr_change_"
LOG_DIR_EVENT_NOTIFICATION = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONSUMERS = "/consumers"
OTTLA = "/ottla"  # what Kafka's tree has no place for
OTTLA_BROKERS = "/ottla/brokers"
ELIGIBLE = "/ottla/eligible"

CONFIG_ENTITY_TYPES = ("topics", "clients", "users", "brokers", "ips")
DEFAULT_ENTITY = "<default>"

# Made at start when missing, with an empty value; parents before their children.
PERSISTENT_PATHS = (
    CONSUMERS,
    BROKERS,
    BROKER_IDS,
    TOPICS,
    BROKER_SEQUENCE_ID,
    CONFIG,
    CONFIG_CHANGES,
    *(f"{CONFIG}/{entity_type}" for entity_type in CONFIG_ENTITY_TYPES),
    CLUSTER,
    ADMIN,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    OTTLA,
    OTTLA_BROKERS,
    ELIGIBLE,
)

NO_TOPIC_ID = bytes(16)


def broker_path(broker_id: BrokerId) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def broker_epoch_path(broker_id: BrokerId) -> str:
    """Its version is the broker's epoch: each registration raises it."""
    return f"{OTTLA_BROKERS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def topic_partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def eligible_path(topic: str, partition: int) -> str:
    """Only there for partitions that once had fewer in-sync replicas than the minimum, or lost a replica's data."""
    return f"{ELIGIBLE}/{topic}-{partition}"


def partition_of_eligible(name: str) -> TopicPartition:
    """From a child of `ELIGIBLE`."""
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def config_path(entity_type: str, entity_name: str) -> str:
    """For example ("topics", "orders"), ("brokers", "1") or ("brokers", DEFAULT_ENTITY)."""
    return f"{CONFIG}/{entity_type}/{entity_name}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def consumer_ids_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def consumer_owner_path(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/owners/{topic}/{partition}"


def consumer_offset_path(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


class BrokerRegistration(NamedTuple):
    """/brokers/ids/N: an ephemeral of the broker that lives."""

    endpoints: tuple[str, ...]  # "PLAINTEXT://host:9092", the listener's name before the colon
    listener_security_protocol_map: Mapping[str, str]
    timestamp_ms: TimestampMs
    rack: str | None = None
    host: str | None = None  # of the plaintext listener, for very old clients
    port: int = -1
    jmx_port: int = -1


def encode_broker(broker: BrokerRegistration) -> bytes:
    fields: dict[str, Any] = {
        "listener_security_protocol_map": dict(broker.listener_security_protocol_map),
        "endpoints": list(broker.endpoints),
        "jmx_port": broker.jmx_port,
        "features": {},
        "host": broker.host,
        "timestamp": str(broker.timestamp_ms),
        "port": broker.port,
        "version": 5,
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    return encode_object(fields)


def decode_broker(path: str, value: bytes) -> BrokerRegistration:
    node = JsonFields(path, value)
    return BrokerRegistration(
        endpoints=tuple(node.texts("endpoints")),
        listener_security_protocol_map=node.text_map("listener_security_protocol_map"),
        timestamp_ms=node.integer("timestamp"),
        rack=node.optional_text("rack"),
        host=node.optional_text("host"),
        port=node.integer("port", -1),
        jmx_port=node.integer("jmx_port", -1),
    )


class TopicAssignment(NamedTuple):
    """/brokers/topics/T: which brokers hold which partitions; the first one is the preferred leader."""

    topic_id: bytes
    partitions: Mapping[int, tuple[BrokerId, ...]]
    adding_replicas: Mapping[int, tuple[BrokerId, ...]] = {}
    removing_replicas: Mapping[int, tuple[BrokerId, ...]] = {}


def encode_topic(topic: TopicAssignment) -> bytes:
    return encode_object(
        {
            "version": 3,
            "topic_id": encode_uuid(topic.topic_id),
            "partitions": _replica_lists(topic.partitions),
            "adding_replicas": _replica_lists(topic.adding_replicas),
            "removing_replicas": _replica_lists(topic.removing_replicas),
        }
    )


def decode_topic(path: str, value: bytes) -> TopicAssignment:
    node = JsonFields(path, value)
    id_text = node.optional_text("topic_id")
    return TopicAssignment(
        topic_id=NO_TOPIC_ID if id_text is None else decode_uuid(path, id_text),
        partitions=node.replica_lists("partitions"),
        adding_replicas=node.replica_lists("adding_replicas", {}),
        removing_replicas=node.replica_lists("removing_replicas", {}),
    )


class PartitionState(NamedTuple):
    """/brokers/topics/T/partitions/N/state: leader (-1: none) and in-sync replicas; its version fences old leaders."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: int


def encode_partition_state(state: PartitionState) -> bytes:
    return encode_object(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
        }
    )


def decode_partition_state(path: str, value: bytes) -> PartitionState:
    node = JsonFields(path, value)
    return PartitionState(
        leader=node.integer("leader"),
        leader_epoch=node.integer("leader_epoch"),
        isr=node.integers("isr"),
        controller_epoch=node.integer("controller_epoch"),
    )


class EligibleReplicas(NamedTuple):
    """/ottla/eligible/T-N: replicas that are not in sync but have all that is committed, and those that had.

    It is written only together with the partition's state, whose version fences both.
    """

    eligible: tuple[BrokerId, ...]
    lossy: tuple[LossyReplica, ...] = ()


def encode_eligible(node: EligibleReplicas) -> bytes:
    lossy = [{"broker": one.broker_id, "epoch": one.last_epoch, "end": one.log_end_offset} for one in node.lossy]
    return encode_object({"version": 0, "eligible": list(node.eligible), "lossy": lossy})


def decode_eligible(path: str, value: bytes) -> EligibleReplicas:
    node = JsonFields(path, value)
    lossy = [
        LossyReplica(one.integer("broker"), one.integer("epoch"), one.integer("end")) for one in node.objects("lossy")
    ]
    return EligibleReplicas(node.integers("eligible"), tuple(lossy))


class ControllerNode(NamedTuple):
    """/controller: an ephemeral of the broker that controls the cluster."""

    broker_id: BrokerId
    timestamp_ms: TimestampMs


def encode_controller(controller: ControllerNode) -> bytes:
    timestamp = str(controller.timestamp_ms)
    return encode_object(
        {"version": 2, "brokerid": controller.broker_id, "timestamp": timestamp, "kraftControllerEpoch": -1}
    )


def decode_controller(path: str, value: bytes) -> ControllerNode:
    node = JsonFields(path, value)
    return ControllerNode(broker_id=node.integer("brokerid"), timestamp_ms=node.integer("timestamp"))


def encode_integer(number: int) -> bytes:
    """Of nodes that hold a bare number: /controller_epoch, offsets of old consumers."""
    return b"%d" % number


def decode_integer(path: str, value: bytes) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise MalformedNodeError(path, f"expected a number, got {value[:40]!r}") from error


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode_object({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, value: bytes) -> str:
    return JsonFields(path, value).text("id")


def encode_config(config: Mapping[str, str]) -> bytes:
    """/config/TYPE/NAME: the settings that were given for one topic, broker, client or user."""
    return encode_object({"version": 1, "config": dict(config)})


def decode_config(path: str, value: bytes) -> dict[str, str]:
    return JsonFields(path, value).text_map("config") if value else {}


def encode_config_change(entity_path: str) -> bytes:
    """/config/changes/config_change_N: names the settings that brokers have to read again, as "topics/orders"."""
    return encode_object({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, value: bytes) -> str:
    return JsonFields(path, value).text("entity_path")


def encode_reassignment(replicas: Mapping[TopicPartition, Iterable[BrokerId]]) -> bytes:
    """/admin/reassign_partitions: where partitions shall move."""
    partitions = [
        {"topic": partition.topic, "partition": partition.partition, "replicas": list(brokers)}
        for partition, brokers in replicas.items()
    ]
    return encode_object({"version": 1, "partitions": partitions})


def decode_reassignment(path: str, value: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    replicas: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for node in JsonFields(path, value).objects("partitions"):
        replicas[node.topic_partition()] = node.integers("replicas")
    return replicas


def encode_partition_set(partitions: Iterable[TopicPartition]) -> bytes:
    """/admin/preferred_replica_election and /isr_change_notification/isr_change_N."""
    listed = [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]
    return encode_object({"version": 1, "partitions": listed})


def decode_partition_set(path: str, value: bytes) -> tuple[TopicPartition, ...]:
    return tuple([node.topic_partition() for node in JsonFields(path, value).objects("partitions")])


def encode_log_dir_event(broker_id: BrokerId) -> bytes:
    """/log_dir_event_notification/log_dir_event_N: a log directory of this broker failed (event 1, the only one)."""
    return encode_object({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, value: bytes) -> BrokerId:
    return JsonFields(path, value).integer("broker")


class ProducerIdBlock(NamedTuple):
    """/latest_producer_id_block: the ids that a broker took last, both ends included."""

    broker_id: BrokerId
    first_producer_id: ProducerId
    last_producer_id: ProducerId


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return encode_object(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first_producer_id),
            "block_end": str(block.last_producer_id),
        }
    )


def decode_producer_id_block(path: str, value: bytes) -> ProducerIdBlock:
    node = JsonFields(path, value)
    return ProducerIdBlock(
        broker_id=node.integer("broker"),
        first_producer_id=node.integer("block_start"),
        last_producer_id=node.integer("block_end"),
    )


def _replica_lists(replicas: Mapping[int, Iterable[BrokerId]]) -> dict[str, list[BrokerId]]:
    return {str(partition): list(brokers) for partition, brokers in replicas.items()}
