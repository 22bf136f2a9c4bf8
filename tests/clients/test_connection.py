"""Connecting: addresses, agreement on versions, and failures that say what happened."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from ottla.clients.connection import Address, Connection, parse_bootstrap
from ottla.clients.errors import BrokerError, ConnectionFailed, UnsupportedByBroker
from ottla.core.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import decode, encode_response
from ottla.protocol.frames import parse_request_header
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse


def test_bootstrap_takes_several_addresses_and_ipv6() -> None:
    assert parse_bootstrap(" a:1, [::1]:9092,") == [Address("a", 1), Address("::1", 9092)]
    assert str(Address("::1", 9092)) == "[::1]:9092"


@pytest.mark.parametrize("servers", ["", ",", "host", "host:", ":9092", "host:0", "host:70000", "host:x"])
def test_a_wrong_bootstrap_is_named(servers: str) -> None:
    with pytest.raises(ValueError):
        parse_bootstrap(servers)


def test_a_broker_that_is_not_there_is_named_in_the_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}: not reached"):
        Connection(Address("127.0.0.1", port))


@contextmanager
def serving(answer: Callable[[bytes], bytes | None]) -> Iterator[Address]:
    """A peer that answers each frame by `answer`; None hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer, peer.makefile("rb") as stream, suppress(ConnectionResetError):
            while size := stream.read(4):
                reply = answer(stream.read(int.from_bytes(size, "big")))
                if reply is None:
                    return
                peer.sendall(reply)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield Address("127.0.0.1", listener.getsockname()[1])
    listener.close()
    thread.join(timeout=10)


def versions_answer(frame: bytes, *ranges: tuple[int, int, int]) -> bytes:
    header = parse_request_header(memoryview(frame))
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in ranges]
    )
    return encode_response(response, header.api_version, header.correlation_id)


def test_the_highest_common_version_is_chosen() -> None:
    with (
        serving(lambda frame: versions_answer(frame, (ApiKey.METADATA, 1, 7), (ApiKey.PRODUCE, 0, 2))) as address,
        Connection(address) as connection,
    ):
        assert connection.version_for(ApiKey.METADATA, (0, 13)) == 7
        assert connection.version_for(ApiKey.METADATA, (0, 4)) == 4
        with pytest.raises(UnsupportedByBroker, match="versions 0 to 2, this client speaks 3 to 12"):
            connection.version_for(ApiKey.PRODUCE, (3, 12))
        with pytest.raises(UnsupportedByBroker, match="does not serve FETCH"):
            connection.version_for(ApiKey.FETCH, (4, 12))


def test_an_old_broker_that_refuses_the_version_is_asked_again_in_its_own() -> None:
    seen = []

    def answer(frame: bytes) -> bytes:
        header = parse_request_header(memoryview(frame))
        seen.append(header.api_version)
        ranges = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=1)]
        if header.api_version > 1:
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=ranges)
            return encode_response(refusal, 0, header.correlation_id)
        return versions_answer(frame, (ApiKey.API_VERSIONS, 0, 1), (ApiKey.METADATA, 0, 5))

    with serving(answer) as address, Connection(address) as connection:
        assert connection.version_for(ApiKey.METADATA, (0, 13)) == 5
    assert seen == [3, 1]


def test_the_client_says_its_name_and_version() -> None:
    asked: list[ApiVersionsRequest] = []

    def answer(frame: bytes) -> bytes:
        header = parse_request_header(memoryview(frame))
        asked.append(decode(ApiVersionsRequest, header.api_version, frame[header.body_position :]))
        return versions_answer(frame)

    with serving(answer) as address:
        Connection(address).close()
    assert asked[0].client_software_name == "ottla"
    assert asked[0].client_software_version


def test_an_error_in_the_version_answer_is_raised() -> None:
    def answer(frame: bytes) -> bytes:
        header = parse_request_header(memoryview(frame))
        response = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        return encode_response(response, header.api_version, header.correlation_id)

    with serving(answer) as address, pytest.raises(BrokerError, match="INVALID_REQUEST"):
        Connection(address)


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (None, "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is this a Kafka broker"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "answer 99 came"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00", "unreadable answer"),
    ],
)
def test_a_bad_answer_closes_the_connection_and_says_why(reply: bytes | None, complaint: str) -> None:
    with serving(lambda _: reply) as address, pytest.raises(ConnectionFailed, match=complaint):
        Connection(address)


def test_a_broken_connection_is_not_open_any_more() -> None:
    def answer(frame: bytes) -> bytes | None:
        is_first = parse_request_header(memoryview(frame)).api_key == ApiKey.API_VERSIONS
        return versions_answer(frame, (ApiKey.METADATA, 0, 9)) if is_first else None

    with serving(answer) as address:
        connection = Connection(address)
        with pytest.raises(ConnectionFailed):
            connection.request(MetadataRequest(), MetadataResponse)
        assert not connection.is_open


def test_silence_ends_with_a_timeout() -> None:
    with (
        serving(lambda _: b"") as address,
        pytest.raises(ConnectionFailed, match="no answer within 50 ms"),
    ):
        Connection(address, request_timeout_ms=50)
