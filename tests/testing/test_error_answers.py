"""Every API in every version: the answer that the proxy makes can be read by a client, and carries the error."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.apis import ApiKey, request_class, response_class
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.frames import parse_request_header
from ottla.protocol.message import ApiMessage, Message
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.testing.error_answers import BrokerIdentity, continues_fetch_session, error_answer, read_request

IDENTITY = BrokerIdentity(7, "cluster", "127.0.0.1", 4711)
TOPIC_ID = bytes(range(16))


def known_versions() -> list[tuple[ApiKey, int]]:
    found = []
    for api in ApiKey:
        try:
            first, last = request_class(api).VERSIONS
        except ModuleNotFoundError:
            continue
        if api == ApiKey.DESCRIBE_LOG_DIRS:
            first = 3  # before, an error stands with a log directory, which only a broker can name
        found += [(api, version) for version in range(first, last + 1)]
    return found


def filled(message_class: type[Message], version: int) -> Any:
    """A message with one element in each of its arrays."""
    message: Any = message_class()
    for field in message_class.FIELDS:
        if not field.is_in(version):
            continue
        if field.type == "[]struct":
            assert field.struct is not None
            setattr(message, field.name, [filled(field.struct, version)])
        elif field.type == "[]string":
            setattr(message, field.name, ["a"])
        elif field.type == "[]int32":
            setattr(message, field.name, [3])
        elif field.type == "string":
            setattr(message, field.name, f"the {field.name}")
    return message


def error_codes(message: Message) -> list[int]:
    found = []
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(value)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Message):
                found += error_codes(item)
    return found


def answer_to(request: ApiMessage, version: int, error: ErrorCode) -> Any:
    """The answer as the client reads it; None when there is none."""
    frame = memoryview(encode_request(request, version, 99, "client"))[4:]
    header = parse_request_header(frame)
    answer = error_answer(read_request(header, frame), header, error, IDENTITY)
    if answer is None:
        return None
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    correlation_id, response = decode_response(response_class(request.API_KEY), version, answer[4:])
    assert correlation_id == 99
    return response


@pytest.mark.parametrize(("api", "version"), known_versions())
def test_an_error_reaches_the_client_in_every_version_of_every_api(api: ApiKey, version: int) -> None:
    response = answer_to(filled(request_class(api), version), version, ErrorCode.NOT_CONTROLLER)
    assert ErrorCode.NOT_CONTROLLER in error_codes(response)


@pytest.mark.parametrize("version", range(3, 14))
def test_every_partition_of_a_produce_is_refused(version: int) -> None:
    topics = [
        TopicProduceData(
            name="a",
            topic_id=TOPIC_ID,
            partition_data=[PartitionProduceData(index=index, records=b"") for index in (0, 5)],
        )
    ]
    response = answer_to(ProduceRequest(acks=-1, topic_data=topics), version, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert isinstance(response, ProduceResponse)
    (topic,) = response.responses
    assert (topic.topic_id == TOPIC_ID) if version >= 13 else (topic.name == "a")
    assert [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses] == [(0, 6, -1), (5, 6, -1)]


def fetch(*, epoch: int) -> FetchRequest:
    topics = [FetchTopic(topic="a", topic_id=TOPIC_ID, partitions=[FetchPartition(partition=2)])]
    return FetchRequest(session_id=0, session_epoch=epoch, topics=topics)


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_error_stands_with_the_partitions(version: int) -> None:
    response = answer_to(fetch(epoch=0), version, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert isinstance(response, FetchResponse)
    assert response.error_code == 0
    (partition,) = response.responses[0].partitions
    assert (partition.partition_index, partition.error_code, partition.records) == (2, 1, b"")


def test_an_error_of_a_fetch_session_stands_at_the_top() -> None:
    response = answer_to(fetch(epoch=0), 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert (response.error_code, response.responses) == (70, [])


def test_only_a_fetch_that_goes_on_with_a_session_leaves_partitions_out() -> None:
    assert [continues_fetch_session(fetch(epoch=epoch), 12) for epoch in (-1, 0, 1)] == [False, False, True]
    assert not continues_fetch_session(fetch(epoch=1), 6)


def test_failed_metadata_still_says_where_the_broker_is() -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    response = answer_to(asked, 9, ErrorCode.LEADER_NOT_AVAILABLE)
    assert isinstance(response, MetadataResponse)
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [(7, "127.0.0.1", 4711)]
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", 5)]


def test_a_request_that_names_nothing_leaves_no_place_for_an_error() -> None:
    assert answer_to(MetadataRequest(topics=None), 9, ErrorCode.LEADER_NOT_AVAILABLE) is None
    assert answer_to(MetadataRequest(topics=None), 13, ErrorCode.LEADER_NOT_AVAILABLE).error_code == 5
