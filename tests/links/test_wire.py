"""One connection's bytes: frames however they are cut, agreement on versions, and what breaks it."""

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clients.errors import ConnectionFailed, UnsupportedByBroker
from ottla.clients.network.port import ANY_BROKER
from ottla.core.errors import ErrorCode
from ottla.links.wire import SCRATCH_BYTES
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import encode_response
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tests.clients.network.scripted_loop import ScriptedLoop, versions_response


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(
        st.sampled_from(
            [4, 100, SCRATCH_BYTES // 2, SCRATCH_BYTES // 2 + 1, SCRATCH_BYTES - 4, SCRATCH_BYTES, 200_000]
        ),
        min_size=1,
        max_size=6,
    ),
    chunk_bytes=st.sampled_from([1_000, 4_099, 65_536, 1 << 30]),
)
def test_frames_are_whole_however_the_bytes_are_cut(sizes: list[int], chunk_bytes: int) -> None:
    loop = ScriptedLoop()
    frames: list[bytes] = []
    kept: list[memoryview] = []

    def on_frame(version: int, frame: object) -> None:
        assert isinstance(frame, memoryview)
        frames.append(bytes(frame))
        kept.append(frame)

    def encode(version: int, correlation_id: int, client_id: str) -> list[bytes]:
        body = pack(">hhih", ApiKey.HEARTBEAT, 0, correlation_id, -1) + b"\0\0" + b"\0\0\0\0" + b"\0\0"
        return [pack(">i", len(body)), body]

    for _ in sizes:
        loop.request_frame(ANY_BROKER, ApiKey.HEARTBEAT, encode, on_frame, versions=(0, 0))
    loop.advance()
    channel = loop.last.accept()
    expected = []
    for index, (size, (header, _)) in enumerate(zip(sizes, channel.requests, strict=True)):
        expected.append(pack(">i", header.correlation_id) + bytes([index]) * (size - 4))
    channel.feed(b"".join(pack(">i", len(frame)) + frame for frame in expected), chunk_bytes=chunk_bytes)
    assert frames == expected
    # The memory of a frame is its own: later ones have not written over it.
    assert [bytes(frame) for frame in kept] == expected


def test_the_memory_of_a_frame_that_nobody_has_is_used_again() -> None:
    loop = ScriptedLoop()
    addresses: list[int] = []
    kept: list[memoryview] = []

    def on_frame(version: int, frame: object) -> None:
        assert isinstance(frame, memoryview)
        addresses.append(id(frame.obj))
        assert bytes(frame[4:]) == b"%d" % (len(addresses) % 10) * (len(frame) - 4)
        if len(addresses) % 4 == 0:
            kept.append(frame[8:])  # a slice holds all of it

    def encode(version: int, correlation_id: int, client_id: str) -> list[bytes]:
        body = pack(">hhih", ApiKey.HEARTBEAT, 0, correlation_id, -1) + b"\0\0" + b"\0\0\0\0" + b"\0\0"
        return [pack(">i", len(body)), body]

    loop.request_frame(ANY_BROKER, ApiKey.HEARTBEAT, encode, lambda version, frame: None, versions=(0, 0))
    loop.advance()
    channel = loop.last.accept()
    for number in range(1, 13):
        if number > 1:
            loop.request_frame(ANY_BROKER, ApiKey.HEARTBEAT, encode, on_frame, versions=(0, 0))
            loop.advance()
        header, _ = channel.requests.pop(0)
        count = 50_000 if number == 1 else 90_000 + number
        frame = pack(">i", header.correlation_id) + b"%d" % ((number - 1) % 10) * count
        channel.feed(pack(">i", len(frame)) + frame, chunk_bytes=60_000)
    assert len(addresses) == 11
    assert len(set(addresses)) < len(addresses)
    assert [bytes(slice_) for slice_ in kept] == [b"4" * (90_005 - 4), b"8" * (90_009 - 4)]


def test_a_frame_beyond_what_is_kept_has_memory_of_its_own() -> None:
    loop = ScriptedLoop()
    frames: list[memoryview] = []

    def on_frame(version: int, frame: object) -> None:
        assert isinstance(frame, memoryview)
        frames.append(frame)

    def encode(version: int, correlation_id: int, client_id: str) -> list[bytes]:
        body = pack(">hhih", ApiKey.HEARTBEAT, 0, correlation_id, -1) + b"\0\0" + b"\0\0\0\0" + b"\0\0"
        return [pack(">i", len(body)), body]

    loop.request_frame(ANY_BROKER, ApiKey.HEARTBEAT, encode, on_frame, versions=(0, 0))
    loop.advance()
    channel = loop.last.accept()
    header, _ = channel.requests.pop(0)
    frame = pack(">i", header.correlation_id) + bytes(range(256)) * 12_000
    channel.feed(pack(">i", len(frame)) + frame, chunk_bytes=1 << 20)
    assert bytes(frames[0]) == frame


def test_one_byte_at_a_time() -> None:
    loop = ScriptedLoop()
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    channel = loop.last
    channel.wire.connected()
    header, _ = channel.requests.pop(0)
    answer = versions_response((ApiKey.HEARTBEAT, 0, 4))
    channel.feed(encode_response(answer, header.api_version, header.correlation_id), chunk_bytes=1)
    assert len(channel.requests) == 1
    assert not outcome.is_done


def test_the_highest_common_version_is_spoken() -> None:
    loop = ScriptedLoop()
    loop.heartbeat(ANY_BROKER)
    loop.advance()
    loop.last.wire.connected()
    loop.last.answer(versions_response((ApiKey.HEARTBEAT, 0, 2)))
    assert loop.last.requests[0][0].api_version == 2


def test_what_a_broker_does_not_serve_is_told_and_the_connection_stays() -> None:
    loop = ScriptedLoop()
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    loop.last.wire.connected()
    loop.last.answer(versions_response((ApiKey.METADATA, 0, 12)))
    loop.advance()
    assert isinstance(outcome.error, UnsupportedByBroker)
    assert str(outcome.error) == "one:1: the broker does not serve HEARTBEAT"
    assert not loop.last.is_closed


def test_an_older_broker_is_asked_again_in_its_own_version() -> None:
    loop = ScriptedLoop()
    loop.heartbeat(ANY_BROKER)
    loop.advance()
    channel = loop.last
    channel.wire.connected()
    header, _ = channel.requests.pop(0)
    assert header.api_version == 3
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2)],
    )
    channel.feed(encode_response(refusal, 0, header.correlation_id))
    assert channel.requests[0][0].api_version == 2
    channel.answer(versions_response((ApiKey.HEARTBEAT, 0, 4)))
    assert channel.requests[0][0].api_key == ApiKey.HEARTBEAT


def test_a_broker_that_refuses_every_version_is_given_up() -> None:
    loop = ScriptedLoop()
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    channel = loop.last
    channel.wire.connected()
    header, _ = channel.requests.pop(0)
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=9)],
    )
    channel.feed(encode_response(refusal, 0, header.correlation_id))
    loop.advance()
    assert "refuses every version of ApiVersions" in str(outcome.error)


@pytest.mark.parametrize("is_ready", [False, True])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "is this a Kafka broker?"),
        (b"\0\0\0\0", "an answer of 0 bytes was announced"),
        (b"\xff\xff\xff\xff", "an answer of -1 bytes"),
        (pack(">ii", 4, 99), "answer 99 came"),
        (pack(">ii", 5, 1) + b"\0", "answer"),
    ],
)
def test_bytes_that_are_no_answer_close_the_connection(data: bytes, words: str, is_ready: bool) -> None:
    loop = ScriptedLoop()
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    channel = loop.last
    if is_ready:
        channel.accept()
    else:
        channel.wire.connected()
    channel.feed(data)
    loop.advance()
    assert isinstance(outcome.error, ConnectionFailed)
    assert words in str(outcome.error)
    assert channel.is_closed


def test_an_answer_that_nobody_asked_for_closes_the_connection() -> None:
    loop = ScriptedLoop()
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    channel = loop.last.accept()
    header, _ = channel.requests[0]
    frame = pack(">ii", 11, header.correlation_id) + b"\0" + b"\0\0\0\0" + b"\0\0" + b"\0"
    frame = pack(">i", len(frame) - 4) + frame[4:]
    channel.feed(frame + frame)
    assert outcome.is_answered
    assert channel.is_closed


def test_an_unreadable_answer_is_told() -> None:
    loop = ScriptedLoop()
    outcome = loop.heartbeat(ANY_BROKER)
    loop.advance()
    channel = loop.last.accept()
    channel.feed(pack(">ii", 5, channel.requests[0][0].correlation_id) + b"\0")
    assert isinstance(outcome.error, ConnectionFailed)
    assert "unreadable answer to HEARTBEAT" in str(outcome.error)


def test_a_request_without_an_answer_is_done_when_it_is_handed_over() -> None:
    loop = ScriptedLoop()
    seen: list[object] = []

    def encode(version: int, correlation_id: int, client_id: str) -> list[bytes]:
        body = pack(">hhih", ApiKey.HEARTBEAT, 0, correlation_id, -1) + b"\0\0" + b"\0\0\0\0" + b"\0\0"
        return [pack(">i", len(body)) + body]

    def on_frame(version: int, frame: object) -> None:
        assert isinstance(frame, memoryview)
        seen.append(bytes(frame))

    loop.request_frame(ANY_BROKER, ApiKey.HEARTBEAT, encode, on_frame, versions=(0, 0), expects_response=False)
    loop.advance()
    assert seen == []
    channel = loop.last.accept()
    assert seen == []
    loop.advance()
    assert seen == [b""]
    channel.requests.clear()
    assert loop.in_flight(-2) == 0
