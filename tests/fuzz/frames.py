"""Sound requests of every API that a broker serves, and ways to spoil them; all of it follows from a seed."""

import random
import struct
from collections.abc import Callable, Iterator

from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import encode_request
from ottla.protocol.fetch_client_codec import encode_fetch_request
from ottla.protocol.fetch_codec import TOPIC_IDS_SINCE
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.produce_client_codec import encode_produce_request
from tests.fuzz.admin_messages import admin_messages
from tests.fuzz.group_messages import NO_SEAT, Seat, group_messages
from tests.raw_wire import batch_of, fetch_arguments

CLIENT_ID = "fuzz"
TOPIC = "fuzzed"
HUGE = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f", b"\xff" * 10)


def sound_frame(api_key: int, version: int, topic_id: bytes, seat: Seat = NO_SEAT) -> bytes:
    """A request that a broker takes, its size included; `topic_id` is that of TOPIC, `seat` a place in a group."""
    if api_key == ApiKey.PRODUCE:
        batch = batch_of(b"one", b"two", b"three", codec=version % 4)
        parts = encode_produce_request(
            version, 7, CLIENT_ID, transactional_id=None, acks=1, timeout_ms=50, topics=[(TOPIC, [(0, batch)])]
        )
        return b"".join(parts)
    if api_key == ApiKey.FETCH:
        topic = topic_id if version >= TOPIC_IDS_SINCE else TOPIC
        arguments = fetch_arguments(topic, 0, max_wait_ms=20)
        if version % 2:
            arguments = arguments._replace(session_epoch=0)  # begins a session
        return encode_fetch_request(version, 7, CLIENT_ID, arguments)
    make = _MESSAGES.get(ApiKey(api_key)) or group_messages(TOPIC, seat)[ApiKey(api_key)]
    return encode_request(make(version), version, 7, CLIENT_ID)


_MESSAGES: dict[ApiKey, Callable[[int], ApiMessage]] = {
    ApiKey.CREATE_PARTITIONS: lambda version: CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=TOPIC, count=1),
            CreatePartitionsTopic(
                name="no-such-topic", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1, 2])]
            ),
        ],
        timeout_ms=100,
        validate_only=True,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda version: OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic=TOPIC,
                partitions=[OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)],
            )
        ]
    ),
    ApiKey.DESCRIBE_CLUSTER: lambda version: DescribeClusterRequest(include_cluster_authorized_operations=True),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda version: DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=TOPIC), TopicRequest(name="no-such-topic")],
        response_partition_limit=1,
        cursor=Cursor(topic_name=TOPIC, partition_index=0),
    ),
    ApiKey.DESCRIBE_LOG_DIRS: lambda version: DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=TOPIC, partitions=[0, 1])]
    ),
    ApiKey.LIST_OFFSETS: lambda version: ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
    ),
    ApiKey.METADATA: lambda version: MetadataRequest(
        topics=[MetadataRequestTopic(name=TOPIC), MetadataRequestTopic(name="no-such-topic")],
        allow_auto_topic_creation=False,
    ),
    ApiKey.FIND_COORDINATOR: lambda version: FindCoordinatorRequest(key="group", coordinator_keys=["one", "two"]),
    ApiKey.API_VERSIONS: lambda version: ApiVersionsRequest(client_software_name="fuzz", client_software_version="1.0"),
    ApiKey.CREATE_TOPICS: lambda version: CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=f"created-{version}",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="segment.bytes", value="100000")],
            )
        ],
        timeout_ms=50,
    ),
    ApiKey.DELETE_TOPICS: lambda version: DeleteTopicsRequest(
        topics=[DeleteTopicState(name="no-such-topic")], topic_names=["no-such-topic"], timeout_ms=50
    ),
    ApiKey.DELETE_RECORDS: lambda version: DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])],
        timeout_ms=50,
    ),
    ApiKey.INIT_PRODUCER_ID: lambda version: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
    **admin_messages(TOPIC),
}


def mutations(frame: bytes, dice: random.Random, count: int) -> Iterator[bytes]:
    """Spoiled forms of a frame; some with a size that no longer fits."""
    for _ in range(count):
        body = bytearray(frame[4:])
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            dice.choice(_SPOIL)(body, dice)
        size = len(body)
        if dice.random() < 0.05:
            size = max(1, size + dice.choice((-3, -1, 1, 7, 1000)))
        yield struct.pack(">i", size) + bytes(body)


def _flip_bits(body: bytearray, dice: random.Random) -> None:
    for _ in range(dice.randint(1, 8)):
        if body:
            body[dice.randrange(len(body))] ^= 1 << dice.randrange(8)


def _flip_behind_the_header(body: bytearray, dice: random.Random) -> None:
    if len(body) > 16:
        body[dice.randrange(14, len(body))] = dice.randrange(256)


def _cut(body: bytearray, dice: random.Random) -> None:
    del body[dice.randrange(len(body) + 1) :]


def _cut_out(body: bytearray, dice: random.Random) -> None:
    start = dice.randrange(len(body) + 1)
    del body[start : start + dice.randint(1, 8)]


def _put_huge_count(body: bytearray, dice: random.Random) -> None:
    lie = dice.choice(HUGE)
    start = dice.randrange(len(body) + 1)
    body[start : start + dice.choice((0, 1, 4, len(lie)))] = lie


def _put_noise(body: bytearray, dice: random.Random) -> None:
    start = dice.randrange(len(body) + 1)
    body[start:start] = dice.randbytes(dice.randint(1, 40))


def _replace_body(body: bytearray, dice: random.Random) -> None:
    body[min(len(body), dice.randint(8, 20)) :] = dice.randbytes(dice.randint(0, 300))


def _repeat(body: bytearray, dice: random.Random) -> None:
    start = dice.randrange(len(body) + 1)
    body += body[start:] * dice.randint(1, 20)


def _spoil_header(body: bytearray, dice: random.Random) -> None:
    body[: min(len(body), 10)] = dice.randbytes(10)


def _spoil_client_id_length(body: bytearray, dice: random.Random) -> None:
    if len(body) >= 10:
        struct.pack_into(">h", body, 8, dice.choice((-2, -32768, 32767, 0, 1, len(body))))


_SPOIL = (
    _flip_bits,
    _flip_behind_the_header,
    _flip_behind_the_header,
    _cut,
    _cut_out,
    _put_huge_count,
    _put_huge_count,
    _put_noise,
    _replace_body,
    _repeat,
    _spoil_header,
    _spoil_client_id_length,
)
