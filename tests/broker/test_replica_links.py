"""The link under a fetcher: frames to the inter-broker listener of a leader, answers and failures back."""

from collections.abc import Callable, Sequence
from random import Random

from ottla.broker.replica_links import ReplicaLinks, fetcher_settings_of
from ottla.core.cluster import BrokerEndpoint, BrokerInfo
from ottla.core.config.config import BrokerConfig
from ottla.core.types import Buffer
from ottla.links.addresses import Address
from ottla.links.errors import ClientError, ConnectionFailed
from ottla.links.wire import Wire
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import encode_response
from ottla.protocol.fetch_client_codec import FetchAnswer
from ottla.protocol.fetch_codec import (
    FetchArguments,
    FetchedPartition,
    FetchPartition,
    decode_fetch_request,
    encode_fetch_response,
)
from ottla.protocol.frames import parse_request_header
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.replication.fetcher import FetcherSettings
from tests.replication.following import HandLoop

TOPIC_ID = bytes(range(16))
ARGUMENTS = FetchArguments(
    1, 77, 500, 1, 4096, 0, 0, 0, [(TOPIC_ID, [FetchPartition(0, 5, 10, 4, 0, 1024, durable_offset=7)])], [], ""
)
LEADER = BrokerInfo(2, (BrokerEndpoint("CLIENTS", "outside", 1), BrokerEndpoint("BROKERS", "inside", 2)), None, epoch=3)


class _Channel:
    """What a wire has sent."""

    def __init__(self) -> None:
        self.frames: list[memoryview] = []
        self.is_closed = False

    def send(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        while data:
            size = int.from_bytes(data[:4], "big")
            self.frames.append(memoryview(data[4 : 4 + size]))
            data = data[4 + size :]

    def close(self) -> None:
        self.is_closed = True


class _Loop(HandLoop):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[Address, Wire, _Channel]] = []

    def open(self, address: Address, wire: Wire) -> _Channel:
        channel = _Channel()
        self.opened.append((address, wire, channel))
        return channel


def give(wire: Wire, frame: bytes) -> None:
    """Bytes from the peer, a few at a time."""
    while frame:
        buffer = wire.buffer()
        count = min(len(buffer), len(frame), 100)
        buffer[:count] = frame[:count]
        frame = frame[count:]
        wire.received(count)


def connect(loop: _Loop, *, fetch_versions: tuple[int, int] = (4, 16)) -> tuple[Wire, _Channel]:
    _, wire, channel = loop.opened[-1]
    wire.connected()
    asked = parse_request_header(channel.frames.pop())
    versions = [
        ApiVersion(api_key=ApiKey.FETCH, min_version=fetch_versions[0], max_version=fetch_versions[1]),
        ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
    ]
    give(wire, encode_response(ApiVersionsResponse(api_keys=versions), asked.api_version, asked.correlation_id))
    loop.run()
    return wire, channel


def make_links(loop: _Loop, listener_name: str = "BROKERS") -> ReplicaLinks:
    config = BrokerConfig.parse(
        {
            "listeners": "CLIENTS://127.0.0.1:9092,BROKERS://127.0.0.1:9093",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": listener_name,
        }
    )
    return ReplicaLinks(config, broker_id=1, loop=loop, random=Random(1))


def collect() -> tuple[list[FetchAnswer | ClientError], Callable[[FetchAnswer | ClientError], None]]:
    answers: list[FetchAnswer | ClientError] = []
    return answers, answers.append


def test_fetch_goes_to_the_inter_broker_listener_and_its_answer_comes_back() -> None:
    loop = _Loop()
    link = make_links(loop).open(LEADER)
    assert loop.opened == []
    answers, on_answer = collect()
    link.send(ARGUMENTS, on_answer)
    assert loop.opened[0][0] == Address("inside", 2)
    wire, channel = connect(loop)
    header = parse_request_header(channel.frames[0])
    assert (header.api_key, header.api_version, header.client_id) == (ApiKey.FETCH, 16, "broker-1-fetcher")
    assert decode_fetch_request(channel.frames[0], header.body_position, 16) == ARGUMENTS
    fetched = [(TOPIC_ID, [FetchedPartition(0, 0, 12, 12, 0, records=b"records")])]
    give(wire, b"".join(encode_fetch_response(16, header.correlation_id, 0, 0, 9, fetched)))  # type: ignore[arg-type]
    (answer,) = answers
    assert isinstance(answer, FetchAnswer)
    assert (answer.session_id, answer.topics) == (9, fetched)


def test_two_fetches_may_be_under_way() -> None:
    loop = _Loop()
    link = make_links(loop).open(LEADER)
    answers, on_answer = collect()
    link.send(ARGUMENTS, on_answer)
    wire, channel = connect(loop)
    link.send(ARGUMENTS._replace(session_epoch=1), on_answer)
    assert len(channel.frames) == 2
    for frame in channel.frames:
        give(wire, b"".join(encode_fetch_response(16, parse_request_header(frame).correlation_id, 0, 0, 9, [])))
    assert len(answers) == 2


def test_lost_connection_is_an_answer_and_the_next_fetch_connects_anew() -> None:
    loop = _Loop()
    link = make_links(loop).open(LEADER)
    answers, on_answer = collect()
    link.send(ARGUMENTS, on_answer)
    connect(loop)
    loop.opened[0][1].lost("reset by peer")
    assert [type(answer) for answer in answers] == [ConnectionFailed]
    link.send(ARGUMENTS, on_answer)
    loop.advance(100)
    assert len(loop.opened) == 2


def test_broker_that_never_answers_is_given_up_after_the_timeout() -> None:
    loop = _Loop()
    link = make_links(loop).open(LEADER)
    answers, on_answer = collect()
    link.send(ARGUMENTS, on_answer)
    connect(loop)
    loop.advance(29_000)
    assert answers == []
    loop.advance(1_500)
    assert isinstance(answers[0], ConnectionFailed)


def test_unreadable_answer_is_a_failure() -> None:
    loop = _Loop()
    link = make_links(loop).open(LEADER)
    answers, on_answer = collect()
    link.send(ARGUMENTS, on_answer)
    wire, channel = connect(loop)
    correlation_id = parse_request_header(channel.frames[0]).correlation_id
    give(wire, (8).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x00")
    assert isinstance(answers[0], ConnectionFailed)


def test_leader_that_is_too_old_is_a_failure() -> None:
    loop = _Loop()
    link = make_links(loop).open(LEADER)
    answers, on_answer = collect()
    link.send(ARGUMENTS, on_answer)
    connect(loop, fetch_versions=(4, 12))
    assert isinstance(answers[0], ClientError)


def test_leader_without_an_endpoint_for_brokers_is_a_failure() -> None:
    loop = _Loop()
    link = make_links(loop).open(LEADER._replace(endpoints=LEADER.endpoints[:1]))
    answers, on_answer = collect()
    link.send(ARGUMENTS, on_answer)
    assert answers == []
    loop.run()
    assert str(answers[0]) == "broker 2 has no listener BROKERS"
    assert loop.opened == []


def test_closed_link_says_nothing_any_more() -> None:
    loop = _Loop()
    link = make_links(loop).open(LEADER)
    answers, on_answer = collect()
    link.send(ARGUMENTS, on_answer)
    _, channel = connect(loop)
    link.close()
    loop.advance(100_000)
    assert channel.is_closed
    assert answers == []


def test_settings_come_from_the_keys_of_kafka() -> None:
    assert fetcher_settings_of(BrokerConfig.parse({})) == FetcherSettings()
    changed = BrokerConfig.parse({"replica.fetch.wait.max.ms": "100", "replica.fetch.backoff.ms": "7"})
    assert fetcher_settings_of(changed) == FetcherSettings(wait_max_ms=100, backoff_ms=7)
