"""Request and response headers; kio says what they look like."""

import pytest
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.schema.response_header.v1.header import ResponseHeader as ResponseHeaderV1

from ottla.core.errors import ProtocolViolation
from ottla.protocol.apis import FLEXIBLE_SINCE, ApiKey, request_class, response_class
from ottla.protocol.codec import decode, decode_response, encode_request, encode_response
from ottla.protocol.frames import RequestHeader, parse_request_header
from ottla.protocol.message import NEVER_FLEXIBLE
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

from . import foreign


def test_flexible_versions_and_names_are_those_of_kio():
    seen = set()
    for ours, version, theirs in foreign.all_messages():
        if hasattr(ours, "API_KEY"):
            assert (version >= FLEXIBLE_SINCE[ours.API_KEY]) == theirs.__flexible__
            assert FLEXIBLE_SINCE[ours.API_KEY] == ours.FLEXIBLE_SINCE
            assert theirs.__api_key__ == ours.API_KEY
            assert theirs.__name__ == ours.__name__
            seen.add(ours.API_KEY)
    assert len(seen) > 55
    assert len(FLEXIBLE_SINCE) == max(ApiKey) + 1


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "ö" * 100])
def test_header_is_read_as_kio_writes_it(client_id):
    for api_key in (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.LEADER_AND_ISR):
        for version in range(5) if api_key == ApiKey.API_VERSIONS else range(13):
            header_class = HeaderV2 if version >= FLEXIBLE_SINCE[api_key] else HeaderV1
            header = header_class(
                request_api_key=api_key, request_api_version=version, correlation_id=-5, client_id=client_id
            )
            data = foreign.encode(header)
            read = parse_request_header(memoryview(data + b"body"))
            assert read == RequestHeader(api_key, version, -5, client_id, len(data))


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_unknown_api_versions_request_still_gives_its_correlation_id(version):
    frame = (18).to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + (77).to_bytes(4, "big") + b"\xf0\xff!"
    header = parse_request_header(memoryview(frame))
    assert (header.api_key, header.api_version, header.correlation_id) == (18, version, 77)


@pytest.mark.parametrize("api_key", [-1, -32768, len(FLEXIBLE_SINCE), 32767])
def test_unknown_api_key_is_refused(api_key):
    frame = api_key.to_bytes(2, "big", signed=True) + bytes(20)
    with pytest.raises(ProtocolViolation, match="unknown api key"):
        parse_request_header(memoryview(frame))


def test_every_truncation_of_a_header_is_refused():
    frame = encode_request(MetadataRequest(), 9, 1, "client")[4:]
    position = parse_request_header(memoryview(frame)).body_position
    for end in range(position):
        with pytest.raises(ProtocolViolation):
            parse_request_header(memoryview(frame)[:end])


@pytest.mark.parametrize("length", [-2, -32768, 11, 32767])
def test_bad_client_id_length_is_refused(length):
    frame = bytes.fromhex("0003000000000001") + length.to_bytes(2, "big", signed=True) + bytes(10)
    with pytest.raises(ProtocolViolation, match="client id"):
        parse_request_header(memoryview(frame))


def test_client_id_that_is_not_utf8_is_refused():
    with pytest.raises(ProtocolViolation, match="UTF-8"):
        parse_request_header(memoryview(bytes.fromhex("0003000000000001" + "0002fffe")))


def test_tagged_fields_of_the_header_are_skipped_and_bounded():
    head = bytes.fromhex("0003" + "0009" + "00000001" + "ffff")
    assert parse_request_header(memoryview(head + b"\x01\x07\x03abcBODY")).body_position == 16
    for tags in (b"", b"\xff\xff\xff\xff\x0f", b"\x01\x07\x09abc", b"\x85\x01" + bytes(1000)):
        with pytest.raises(ProtocolViolation):
            parse_request_header(memoryview(head + tags))


def test_request_frame_has_its_size_and_is_read_back():
    for version in (8, 9):
        frame = encode_request(MetadataRequest(topics=[]), version, 42, "me")
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header = parse_request_header(memoryview(frame)[4:])
        assert header[:4] == (3, version, 42, "me")
        body = memoryview(frame)[4 + header.body_position :]
        assert decode(MetadataRequest, version, body) == MetadataRequest(topics=[])


def test_response_frame_has_its_size_and_is_read_back():
    response = MetadataResponse(cluster_id="c", controller_id=3)
    for version in (8, 9):
        frame = encode_response(response, version, 42)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert decode_response(MetadataResponse, version, frame[4:]) == (42, response)
    assert encode_response(response, 9, 42)[4:9] == foreign.encode(ResponseHeaderV1(correlation_id=42))


def test_api_versions_response_has_the_oldest_header_in_every_version():
    response = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=4)])
    for version in range(5):
        frame = encode_response(response, version, 42)
        assert frame[4:10] == b"\0\0\0\x2a\0\x23"
        assert decode_response(ApiVersionsResponse, version, frame[4:])[1] == response
    header = parse_request_header(memoryview(encode_request(ApiVersionsRequest(), 3, 1, "x"))[4:])
    assert header.body_position == 12


def test_message_classes_are_found_by_key():
    assert request_class(ApiKey.METADATA) is MetadataRequest
    assert response_class(18) is ApiVersionsResponse
    assert request_class(ApiKey.SASL_HANDSHAKE).FLEXIBLE_SINCE == NEVER_FLEXIBLE
