"""Mutated frames of every served API and version, thrown at a running broker: no hang, no growth, no death."""

import os
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.records.header import write_crc
from tests.fuzz.frames import TOPIC, mutations, sound_frame
from tests.fuzz.group_messages import NO_SEAT, Seat
from tests.group_wire import RawMember, committed, find_coordinator, settle
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import RawClient, batch_of

pytestmark = [pytest.mark.process, pytest.mark.slow]

SEED = int(os.environ.get("OTTLA_FUZZ_SEED", "20240229"))
MUTATIONS_PER_VERSION = int(os.environ.get("OTTLA_FUZZ_COUNT", "250"))
THREADS = 4
TIMEOUT_S = 20.0
MIB = 1024 * 1024
SEAT_SESSION_MS = 300_000  # longer than the test, so that what is said in a member's name is said by a member

# None, corrupt, too large, bad timestamp, out of order, old epoch, transactional, invalid record.
REFUSALS = (0, 2, 10, 32, 45, 47, 48, 87)


def throw(port: int, frame: bytes) -> None:
    """One frame on a connection of its own, to the end of the answer; TimeoutError is a hang."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        try:
            connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise AssertionError(f"no answer and no end to {frame.hex()}") from error


def throw_all(port: int, frames: list[bytes]) -> None:
    """From several connections at a time, which each takes the next frame."""
    left = iter(frames)
    lock = threading.Lock()
    failures: list[BaseException] = []

    def work() -> None:
        while not failures:
            with lock:
                frame = next(left, None)
            if frame is None:
                return
            try:
                throw(port, frame)
            except (AssertionError, OSError) as failure:
                failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Bystander(threading.Thread):
    """A producer and member of a group that does everything right, all the while; it must never fail nor wait long."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.client = RawClient(port, timeout_s=TIMEOUT_S)
        self.client.create_topic("bystander")
        self.member = RawMember(port, "bystanders", session_timeout_ms=10_000)
        find_coordinator(self.client, "bystanders")
        assert self.member.join().error_code == 0
        settle(self.member, self.member)
        self.done = threading.Event()
        self.round_trips = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.done.wait(0.01):
                value = b"%d" % self.round_trips
                produced = self.client.produce("bystander", batch_of(value))
                assert (produced.error_code, produced.base_offset) == (0, self.round_trips)
                records = self.client.read_all("bystander", offset=self.round_trips)
                assert [record.value for record in records] == [value]
                self.round_trips += 1
                assert self.member.heartbeat() == 0
                assert self.member.commit("bystander", self.round_trips) == 0
                assert committed(self.client, "bystanders") == {("bystander", 0): self.round_trips}
        except (AssertionError, OSError) as failure:
            self.failure = failure

    def close(self) -> None:
        self.client.close()
        self.member.close()


# What needs a member of the group that the request is about.
OF_MEMBERS = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
)


def take_seat(port: int, api_key: int, version: int) -> Seat:
    """A member that is heard of no more for the rest of the test; one that is to sync has not done so."""
    if api_key not in OF_MEMBERS:
        return NO_SEAT
    with RawMember(port, f"fuzzed-{api_key}-{version}", session_timeout_ms=SEAT_SESSION_MS) as member:
        assert member.join().error_code == 0
        if api_key != ApiKey.SYNC_GROUP:
            settle(member, member)
        return Seat(member.group_id, member.member_id, member.generation)


def spoiled_frames(api_key: int, version: int, topic_id: bytes, seat: Seat) -> Iterator[bytes]:
    dice = random.Random(f"{SEED} {api_key} {version}")
    if api_key != ApiKey.JOIN_GROUP:
        yield from mutations(sound_frame(api_key, version, topic_id, seat), dice, MUTATIONS_PER_VERSION)
        return
    for number in range(MUTATIONS_PER_VERSION):  # each its own group, or they would wait for each other
        frame = sound_frame(api_key, version, topic_id, Seat(f"fuzzed-join-{version}-{number}"))
        yield from mutations(frame, dice, 1)


def test_mutated_frames_do_no_harm(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker("group.initial.rebalance.delay.ms=0", f"group.max.session.timeout.ms={SEAT_SESSION_MS}")
    with RawClient(broker.port) as client:
        served = client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).api_keys
        assert client.create_topic(TOPIC) == 0
        assert client.produce(TOPIC, batch_of(b"first")).error_code == 0
        metadata = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12, MetadataResponse)
        topic_id = metadata.topics[0].topic_id
        find_coordinator(client, "any")
    pairs = [(api.api_key, version) for api in served for version in range(api.min_version, api.max_version + 1)]
    assert {api_key for api_key, _ in pairs} >= set(OF_MEMBERS)
    first_groups = (Seat(f"sound-{number}") for number in count())
    sound = [sound_frame(*pair, topic_id, next(first_groups)) for pair in pairs * 2]
    throw_all(broker.port, sound)  # what is compiled or opened at the first use is there now
    bystander = Bystander(broker.port)
    bystander.start()
    eventually(lambda: bystander.round_trips > 5)
    resident_before = broker.resident_bytes
    sockets_before = broker.open_sockets

    frames: list[bytes] = []
    for pair in pairs:
        frames += spoiled_frames(*pair, topic_id, take_seat(broker.port, *pair))
    random.Random(SEED).shuffle(frames)
    throw_all(broker.port, frames)

    bystander.done.set()
    bystander.join(TIMEOUT_S * 2)
    assert bystander.failure is None
    assert not bystander.is_alive()
    assert broker.process is not None
    assert broker.process.poll() is None, broker.log[-3000:]
    eventually(lambda: broker.open_sockets <= sockets_before)
    assert broker.resident_bytes - resident_before < 48 * MIB
    tracebacks = broker.log.count("Traceback")
    assert tracebacks == 0, broker.log[broker.log.index("Traceback") - 500 :][:3000]
    bystander.close()
    with RawClient(broker.port) as client:
        produced = client.produce("bystander", batch_of(b"last"))
        assert produced.error_code == 0
        assert [record.value for record in client.read_all("bystander", offset=produced.base_offset)] == [b"last"]
    broker.restart()  # and nothing that was written on the way keeps it from starting
    with RawClient(broker.port) as client:
        assert len(client.read_all("bystander")) == bystander.round_trips + 1
        find_coordinator(client, "bystanders")
        assert committed(client, "bystanders") == {("bystander", 0): bystander.round_trips}
    assert "Traceback" not in broker.log


def test_noise_and_torn_streams_do_no_harm(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker("group.initial.rebalance.delay.ms=0")
    dice = random.Random(SEED)
    with RawClient(broker.port) as client:
        served = client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).api_keys
    group_ids = (Seat(f"torn-{number}") for number in count())
    streams = [dice.randbytes(dice.randint(1, 3000)) for _ in range(300)]
    for _ in range(300):  # whole requests one after the other, torn somewhere
        chosen = [dice.choice(served) for _ in range(dice.randint(1, 30))]
        frames = [sound_frame(api.api_key, api.max_version, bytes(16), next(group_ids)) for api in chosen]
        stream = bytearray(b"".join(frames))
        for _ in range(dice.randint(0, 3)):
            stream[dice.randrange(len(stream))] = dice.randrange(256)
        streams.append(bytes(stream[: dice.randint(1, len(stream))]))
    sockets_before = broker.open_sockets
    throw_all(broker.port, streams)
    eventually(lambda: broker.open_sockets <= sockets_before)
    with RawClient(broker.port) as client:
        assert client.create_topic("alive") == 0
    assert "Traceback" not in broker.log


def test_mutated_batches_with_a_sound_checksum_do_no_harm(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    dice = random.Random(SEED)
    topics: dict[str, dict[str, str]] = {
        "as-sent": {},
        "compacted": {"cleanup_policy": "compact"},
        "packed": {"compression_type": "zstd"},
        "unpacked": {"compression_type": "uncompressed"},
        "stamped": {"message_timestamp_type": "LogAppendTime"},
    }
    resident_before = 0
    with RawClient(broker.port, timeout_s=TIMEOUT_S) as client:
        for topic, configs in topics.items():
            assert client.create_topic(topic, **configs) == 0
        for number in range(1500):
            batch = batch_of(b"one" * 30, b"two", b"", codec=number % 5)
            for _ in range(dice.choice((1, 1, 2, 5))):
                position = dice.randrange(21, len(batch))
                batch[position] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
            if dice.random() < 0.2:
                del batch[dice.randrange(61, len(batch)) :]
                struct.pack_into(">i", batch, 8, len(batch) - 12)
            write_crc(batch, 0, len(batch))
            for topic in topics:
                produced = client.produce(topic, batch, acks=1)
                assert produced.error_code in REFUSALS, (produced, batch.hex())
            if number == 100:
                resident_before = broker.resident_bytes
        assert broker.resident_bytes - resident_before < 48 * MIB
        ends = {topic: client.log_end_offset(topic) for topic in topics}
        # Of a compacted topic every batch is looked into; others keep what came under the codec that they want.
        assert [record.offset for record in client.read_all("compacted")] == list(range(ends["compacted"]))
        for topic in topics:
            for timestamp in (-1, -2, -3, 0, 1_700_000_000_000):
                assert client.list_offset(topic, timestamp).error_code == 0
    assert "Traceback" not in broker.log
    broker.kill()
    broker.start()
    with RawClient(broker.port) as client:
        assert {topic: client.log_end_offset(topic) for topic in topics} == ends
    assert "Traceback" not in broker.log
