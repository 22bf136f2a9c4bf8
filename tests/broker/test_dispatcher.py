"""The way of a frame to its handler, when handlers are made, and the ApiVersions handler."""

import pytest

from ottla.broker.api import AT_START, ON_FIRST_REQUEST, Dispatcher, HotApi, HotHandler, MessageApi, MessageHandler
from ottla.broker.connection_notes import notes_of
from ottla.broker.metrics.requests import MeasuredDispatcher, RequestMetrics
from ottla.core.errors import ErrorCode, ProtocolViolation
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.frames import start_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.rig import FakePeer, Rig, bytes_of


def framed(api_key: int, version: int, body: bytes = b"") -> bytes:
    return bytes(start_request(api_key, version, 5, "test")) + body


@pytest.mark.parametrize("size_bytes", range(8))
def test_frame_shorter_than_a_header_is_a_violation(rig: Rig, size_bytes: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"frame of {size_bytes} bytes"):
        rig.send(bytes(4 + size_bytes))


@pytest.mark.parametrize("api_key", [-1, ApiKey.ADD_PARTITIONS_TO_TXN, 9999])
def test_api_that_is_not_served_is_a_violation(rig: Rig, api_key: int) -> None:
    frame = bytearray(framed(0, 3))
    frame[4:6] = api_key.to_bytes(2, "big", signed=True)
    with pytest.raises(ProtocolViolation, match="not served"):
        rig.send(frame)


@pytest.mark.parametrize(("api_key", "version"), [(0, 12), (0, -1), (1, 3), (1, 17), (3, 13), (2, 0)])
def test_version_outside_of_the_served_range_is_a_violation(rig: Rig, api_key: int, version: int) -> None:
    frame = bytearray(framed(api_key, 0))
    frame[6:8] = version.to_bytes(2, "big", signed=True)
    with pytest.raises(ProtocolViolation, match="is not served"):
        rig.send(frame)


def test_body_that_does_not_decode_is_a_violation(rig: Rig) -> None:
    with pytest.raises(ProtocolViolation):
        rig.send(framed(ApiKey.METADATA, 12, b"\x80\x80\x80\x80\x08"))


def test_every_advertised_range_is_a_range_of_the_schema(rig: Rig) -> None:
    advertised = rig.dispatcher.advertised()
    assert [entry.api_key for entry in advertised] == sorted(entry.api_key for entry in advertised)
    assert all(0 <= entry.min_version <= entry.max_version for entry in advertised)
    assert {entry.api_key: entry.min_version for entry in advertised}[ApiKey.PRODUCE] == 0


@pytest.mark.parametrize("version", [5, 99, -1])
def test_unknown_version_of_api_versions_is_answered_in_the_oldest_form_with_its_range(rig: Rig, version: int) -> None:
    frame = bytearray(framed(ApiKey.API_VERSIONS, 0, b"whatever a newer version has here"))
    frame[6:8] = version.to_bytes(2, "big", signed=True)
    correlation_id, response = decode_response(ApiVersionsResponse, 0, bytes_of(rig.send(frame))[4:])
    assert correlation_id == 5
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("version", range(5))
def test_api_versions_answers_the_table_in_every_version(rig: Rig, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.3.0")
    response = rig.ask(request, ApiVersionsResponse, version)
    assert response.error_code == 0
    answered = [(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys]
    assert answered == [(entry.api_key, entry.min_version, entry.max_version) for entry in rig.dispatcher.advertised()]


def test_api_versions_notes_the_software_of_the_client(rig: Rig) -> None:
    request = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="3.9.0")
    rig.ask(request, ApiVersionsResponse, 3)
    assert notes_of(rig.peer).client_software == "apache-kafka-java 3.9.0"


@pytest.mark.parametrize("name", ["", "-a", "a-", ".a", "a b", "ä", "a/b", "a\n"])
def test_software_name_against_the_rule_is_an_invalid_request(rig: Rig, name: str) -> None:
    for request in (
        ApiVersionsRequest(client_software_name=name, client_software_version="1"),
        ApiVersionsRequest(client_software_name="a", client_software_version=name),
    ):
        response = rig.ask(request, ApiVersionsResponse, 3)
        assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert notes_of(rig.peer).client_software == ""


@pytest.mark.parametrize("name", ["a", "a.b-c", "7"])
def test_software_name_of_letters_digits_dots_and_dashes_is_taken(rig: Rig, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=name)
    assert rig.ask(request, ApiVersionsResponse, 3).error_code == 0


def test_old_api_versions_has_no_software_name_to_check(rig: Rig) -> None:
    assert rig.ask(ApiVersionsRequest(), ApiVersionsResponse, 2).error_code == 0


def test_frame_is_not_kept_by_a_message_handler(rig: Rig) -> None:
    frame = bytearray(encode_request(MetadataRequest(topics=None), 12, 3, "test"))
    rig.dispatcher(memoryview(frame)[4:], FakePeer())
    frame.clear()  # BufferError if anybody still holds a view of it


class Makes:
    """Makes handlers that echo, and counts."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.error: Exception | None = None

    def hot(self) -> HotHandler:
        self._make("hot")
        return lambda frame, version, correlation_id, peer: b"hot %d %d" % (version, correlation_id)

    def message(self) -> MessageHandler:
        self._make("message")
        return lambda request, context: MetadataResponse()

    def _make(self, name: str) -> None:
        if self.error is not None:
            raise self.error
        self.made.append(name)


def serving(makes: Makes, *, is_made_at_start: bool, metrics: RequestMetrics | None = None) -> Dispatcher:
    dispatcher = Dispatcher(lambda: 0) if metrics is None else MeasuredDispatcher(lambda: 0, metrics)
    dispatcher.serve(
        [
            HotApi(ApiKey.HEARTBEAT, 1, 4, makes.hot, is_made_at_start),
            MessageApi(ApiKey.METADATA, 0, 12, makes.message, is_made_at_start),
        ]
    )
    return dispatcher


def ask(dispatcher: Dispatcher, api_key: int, version: int) -> bytes:
    return bytes_of(dispatcher(memoryview(bytearray(framed(api_key, version, bytes(4))))[4:], FakePeer()))


def test_handlers_are_made_at_the_start_or_each_with_its_first_request() -> None:
    at_start, when_asked = Makes(), Makes()
    serving(at_start, is_made_at_start=AT_START)
    dispatcher = serving(when_asked, is_made_at_start=ON_FIRST_REQUEST)
    assert (at_start.made, when_asked.made) == (["hot", "message"], [])
    assert [entry.api_key for entry in dispatcher.advertised()] == [ApiKey.METADATA, ApiKey.HEARTBEAT]
    for version in (1, 4, 1):
        assert ask(dispatcher, ApiKey.HEARTBEAT, version) == b"hot %d 5" % version
    assert when_asked.made == ["hot"]
    for _ in range(2):
        assert ask(dispatcher, ApiKey.METADATA, 0)
    assert when_asked.made == ["hot", "message"]


@pytest.mark.parametrize("api_key", [ApiKey.HEARTBEAT, ApiKey.METADATA])
def test_handler_that_could_not_be_made_is_made_for_a_later_request(api_key: ApiKey) -> None:
    makes = Makes()
    dispatcher = serving(makes, is_made_at_start=ON_FIRST_REQUEST)
    makes.error = OSError("too many open files")
    with pytest.raises(OSError, match="too many open files"):
        ask(dispatcher, api_key, 1)
    makes.error = None
    assert ask(dispatcher, api_key, 1)


def test_version_that_is_not_served_makes_no_handler() -> None:
    makes = Makes()
    with pytest.raises(ProtocolViolation, match="HEARTBEAT version 0 is not served, 1 to 4 are"):
        ask(serving(makes, is_made_at_start=ON_FIRST_REQUEST), ApiKey.HEARTBEAT, 0)
    assert makes.made == []


def test_the_request_that_makes_its_handler_is_counted_once() -> None:
    metrics = RequestMetrics()
    dispatcher = serving(Makes(), is_made_at_start=ON_FIRST_REQUEST, metrics=metrics)
    for api_key in (ApiKey.HEARTBEAT, ApiKey.METADATA):
        assert api_key in metrics.by_api
        for count in (1, 2):
            assert ask(dispatcher, api_key, 1)
            assert metrics.of(api_key).started == count
