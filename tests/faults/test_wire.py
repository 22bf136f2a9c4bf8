"""Faults of the wire against a running broker: bytes that no correct client sends cost their sender its connection.

Large frames before authentication need a listener with authentication: tests/net has them for the network alone.
"""

import ssl
import struct
from collections.abc import Callable, Iterator

import pytest

from ottla.protocol.fetch_codec import FetchPartition
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.produce_client_codec import encode_produce_request
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import ConnectionEnded, RawClient, batch_of, fetch_arguments, read_records

pytestmark = pytest.mark.process

MIB = 1024 * 1024


@pytest.fixture
def bystander(shared_broker: BrokerProcess) -> Iterator[RawClient]:
    """A well-behaved client that must be served before and after."""
    with RawClient(shared_broker.port) as client:
        assert_is_served(client)
        yield client
        assert_is_served(client)


def assert_is_served(client: RawClient) -> None:
    answer = client.ask(
        ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3, ApiVersionsResponse
    )
    assert answer.error_code == 0


def header(api_key: int, version: int, *, correlation_id: int = 1, is_flexible: bool = False) -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, -1) + (b"\x00" if is_flexible else b"")


@pytest.mark.parametrize("kept", [2, 4, 20, -1])
def test_truncated_frame_then_end_appends_nothing_and_frees_its_connection(
    shared_broker: BrokerProcess, bystander: RawClient, kept: int
) -> None:
    bystander.create_topic("truncated")
    sockets = shared_broker.open_sockets
    frame = b"".join(
        encode_produce_request(
            11,
            1,
            "raw",
            transactional_id=None,
            acks=1,
            timeout_ms=100,
            topics=[("truncated", [(0, batch_of(b"x" * 900))])],
        )
    )
    with RawClient(shared_broker.port) as client:
        client.send(frame[:kept])
    eventually(lambda: shared_broker.open_sockets == sockets)
    assert bystander.log_end_offset("truncated") == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 0])
def test_frame_size_that_is_not_positive_closes(shared_broker: BrokerProcess, bystander: RawClient, size: int) -> None:
    with RawClient(shared_broker.port) as client:
        client.send(struct.pack(">i", size))
        assert client.is_closed_by_broker()


def test_frame_over_the_largest_request_closes_before_it_is_allocated(
    shared_broker: BrokerProcess, bystander: RawClient
) -> None:
    before = shared_broker.resident_bytes
    with RawClient(shared_broker.port) as client:
        client.send(struct.pack(">i", 104_857_601))
        assert client.is_closed_by_broker()
    assert shared_broker.resident_bytes - before < 16 * MIB


@pytest.mark.parametrize("api_key", [-1, 93, 1000, 32767, 52])
def test_api_key_that_is_unknown_or_not_served_closes(
    shared_broker: BrokerProcess, bystander: RawClient, api_key: int
) -> None:
    with RawClient(shared_broker.port) as client:
        client.send_frame(header(api_key, 0) + bytes(20))
        assert client.is_closed_by_broker()


def test_every_version_outside_of_what_is_advertised_closes(shared_broker: BrokerProcess, bystander: RawClient) -> None:
    advertised = bystander.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    for api in advertised.api_keys:
        if api.api_key == 18:
            continue
        for version in (api.min_version - 1, api.max_version + 1, 32767, -1):
            with RawClient(shared_broker.port) as client:
                client.send_frame(header(api.api_key, version) + bytes(40))
                assert client.is_closed_by_broker(), f"key {api.api_key} version {version}"


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_unknown_version_of_api_versions_is_answered_in_its_oldest_form(
    shared_broker: BrokerProcess, version: int
) -> None:
    with RawClient(shared_broker.port) as client:
        client.send_frame(header(18, version, correlation_id=77) + b"whatever comes after")
        answer = client.receive_frame()
        correlation_id, error_code, count = struct.unpack_from(">ihi", answer)
        assert (correlation_id, error_code, count) == (77, 35, 1)
        assert struct.unpack_from(">hhh", answer, 10) == (18, 0, 4)
        assert len(answer) == 16
        assert_is_served(client)  # the connection goes on


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (3, 1, struct.pack(">i", 2**31 - 1)),
        (3, 1, struct.pack(">i", -2)),
        (3, 9, b"\xff\xff\xff\xff\x0f"),
        (3, 9, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (0, 3, struct.pack(">hhii", -1, 1, 1000, 2**31 - 1)),
        (0, 9, b"\x00" + struct.pack(">hi", 1, 1000) + b"\xff\xff\xff\xff\x0f"),
        (1, 4, struct.pack(">iiiibi", -1, 0, 0, 1, 0, 2**31 - 1)),
        (2, 1, struct.pack(">ii", -1, 2**31 - 1)),
        (19, 2, struct.pack(">i", 2**31 - 1)),
        (21, 2, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_array_longer_than_its_frame_closes_and_allocates_nothing(
    shared_broker: BrokerProcess, bystander: RawClient, api_key: int, version: int, body: bytes
) -> None:
    before = shared_broker.resident_bytes
    is_flexible = (api_key, version) in ((3, 9), (0, 9), (21, 2))
    with RawClient(shared_broker.port) as client:
        client.send_frame(header(api_key, version, is_flexible=is_flexible) + body)
        assert client.is_closed_by_broker()
    assert shared_broker.resident_bytes - before < 16 * MIB


@pytest.mark.parametrize("count", [2_000_000, 2**32 - 1])
def test_millions_of_tagged_fields_are_refused_at_little_cost(
    shared_broker: BrokerProcess, bystander: RawClient, count: int
) -> None:
    before = shared_broker.resident_bytes
    tags = bytearray(unsigned_varint(count))
    for tag in range(min(count, 100_000)):
        tags += unsigned_varint(tag) + b"\x00"
    with RawClient(shared_broker.port) as client:
        client.send_frame(header(18, 3) + bytes(tags) + b"\x02a\x02b\x00")
        assert client.is_closed_by_broker()
    assert shared_broker.resident_bytes - before < 16 * MIB


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@pytest.mark.parametrize(
    ("api_key", "version"), [(0, 9), (1, 12), (2, 6), (3, 9), (10, 3), (18, 3), (19, 5), (20, 4), (21, 2), (22, 2)]
)
def test_garbage_under_a_sound_header_closes_its_connection_alone(
    shared_broker: BrokerProcess, bystander: RawClient, api_key: int, version: int
) -> None:
    with RawClient(shared_broker.port) as client:
        client.send_frame(header(api_key, version, is_flexible=True) + b"\xfe" * 50)
        assert client.is_closed_by_broker()


@pytest.mark.parametrize("version", [10, 11, 12])
def test_metadata_of_a_topic_without_a_name_is_refused(shared_broker: BrokerProcess, version: int) -> None:
    with RawClient(shared_broker.port) as client:
        for topic_id in (bytes(16), bytes(range(16))):
            wanted = MetadataRequestTopic(name=None, topic_id=topic_id)
            answer = client.ask(MetadataRequest(topics=[wanted]), version, MetadataResponse)
            unknown_id = 100 if version >= 12 and any(topic_id) else 42
            assert [topic.error_code for topic in answer.topics] == [unknown_id]


def test_answers_before_the_garbage_still_arrive(shared_broker: BrokerProcess) -> None:
    with RawClient(shared_broker.port) as client:
        client.send_request(MetadataRequest(topics=[]), 4)
        client.send_frame(header(3, 4) + struct.pack(">i", 1_000_000))
        assert client.receive_frame()
        assert client.is_closed_by_broker()


def test_frame_that_never_ends_is_cut_at_its_deadline(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker("ottla.frame.deadline.ms=300")
    with RawClient(broker.port) as slow, RawClient(broker.port) as quiet:
        assert_is_served(quiet)
        slow.send(struct.pack(">i", 1000) + b"\x00")
        slow.socket.settimeout(0.1)
        is_closed = False
        for _ in range(100):
            try:
                slow.send(b"\x00")  # progress with every byte, and yet not enough
                is_closed = slow.is_closed_by_broker()
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                is_closed = True
            break
        assert is_closed
        assert_is_served(quiet)


@pytest.mark.parametrize("key", ["max.connections", "max.connections.per.ip"])
def test_connections_over_a_cap_are_closed_and_the_others_served_on(
    start_broker: Callable[..., BrokerProcess], key: str
) -> None:
    broker = start_broker(f"{key}=5")
    served = [RawClient(broker.port) for _ in range(5)]
    for client in served:
        assert_is_served(client)
    for _ in range(50):
        with RawClient(broker.port) as refused:
            assert refused.is_closed_by_broker()
    for client in served:
        assert_is_served(client)
    served.pop().close()

    def is_admitted() -> bool:
        with RawClient(broker.port) as client:
            try:
                assert_is_served(client)
            except (ConnectionEnded, BrokenPipeError, ConnectionResetError):
                return False
            return True

    eventually(is_admitted)  # a place that was given back is used again
    for client in served:
        client.close()


def test_connections_over_the_rate_wait_and_those_connected_are_served(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker("max.connection.creation.rate=20")
    with RawClient(broker.port) as first:
        assert_is_served(first)
        flood = [RawClient(broker.port) for _ in range(40)]
        assert_is_served(first)
        for client in flood:
            assert_is_served(client)  # late, but not refused
            client.close()
        assert_is_served(first)


def test_pipelined_requests_are_answered_in_order(shared_broker: BrokerProcess) -> None:
    with RawClient(shared_broker.port) as client:
        client.create_topic("pipelined")
        sent = []
        for number in range(200):
            sent.append(client.send_produce("pipelined", batch_of(b"%d" % number), acks=(-1, 1)[number % 2]))
        for number, correlation_id in enumerate(sent):
            answered, produced = client.receive_produced()
            assert (answered, produced.error_code, produced.base_offset) == (correlation_id, 0, number)
        values = [record.value for record in client.read_all("pipelined")]
        assert values == [b"%d" % number for number in range(200)]


def test_waiting_fetch_holds_back_the_requests_behind_it(shared_broker: BrokerProcess) -> None:
    with RawClient(shared_broker.port) as client, RawClient(shared_broker.port) as other:
        client.create_topic("held")
        waiting = client.send_fetch(fetch_arguments("held", 0, max_wait_ms=10_000))
        behind = client.send_request(MetadataRequest(topics=[MetadataRequestTopic(name="held")]), 4)
        assert other.produce("held", batch_of(b"wake up")).error_code == 0
        answer = client.receive_fetched()
        assert answer.correlation_id == waiting
        assert [record.value for record in read_records(answer.topics[0][1][0])] == [b"wake up"]
        assert struct.unpack_from(">i", client.receive_frame()) == (behind,)


def test_tls_hello_on_a_plain_port_closes(shared_broker: BrokerProcess, bystander: RawClient) -> None:
    hello = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
    sent = hello.read()

    def is_told() -> bool:
        with RawClient(shared_broker.port) as client:
            client.send(sent)
            assert client.is_closed_by_broker()
        return "TLS handshake came on a plaintext listener" in shared_broker.log

    eventually(is_told)  # not each time: lines about bad peers are bounded


def test_http_on_a_plain_port_closes(shared_broker: BrokerProcess, bystander: RawClient) -> None:
    with RawClient(shared_broker.port) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert client.is_closed_by_broker()


def test_client_that_vanishes_in_a_waiting_fetch_is_forgotten(
    shared_broker: BrokerProcess, bystander: RawClient
) -> None:
    bystander.create_topic("vanished")
    sockets = shared_broker.open_sockets
    with RawClient(shared_broker.port) as client:
        client.send_fetch(fetch_arguments("vanished", 0, max_wait_ms=300_000))
    eventually(lambda: shared_broker.open_sockets == sockets)
    assert bystander.produce("vanished", batch_of(b"x")).error_code == 0


def test_topics_are_still_listed_after_all_of_it(shared_broker: BrokerProcess) -> None:
    with RawClient(shared_broker.port) as client:
        answer = client.ask(MetadataRequest(topics=None), 4, MetadataResponse)
        assert {topic.error_code for topic in answer.topics} == {0}
    assert "Traceback" not in shared_broker.log


def test_fetches_of_partitions_that_do_not_exist_leave_no_memory_behind(
    shared_broker: BrokerProcess, bystander: RawClient
) -> None:
    unknown = [FetchPartition(index, -1, 0, -1, -1, 1024) for index in range(20_000)]
    arguments = fetch_arguments("absent", 0)._replace(session_epoch=0, topics=[("absent", unknown)])

    def fetch_on_a_connection_of_its_own() -> None:
        with RawClient(shared_broker.port) as client:
            client.send_fetch(arguments)
            ((_, fetched),) = client.receive_fetched().topics
            assert len(fetched) == 20_000

    for _ in range(3):  # what one such request takes is held for the next
        fetch_on_a_connection_of_its_own()
    before = shared_broker.resident_bytes
    for _ in range(60):
        fetch_on_a_connection_of_its_own()
    assert shared_broker.resident_bytes - before < 32 * MIB
