"""Bytes that no correct client sends, for every message and version: refused, quickly, and nothing large is made."""

import random
import tracemalloc

import pytest

from ottla.core.errors import ProtocolViolation
from ottla.protocol.codec import decode
from ottla.protocol.fetch_client_codec import decode_fetch_response
from ottla.protocol.fetch_codec import decode_fetch_request
from ottla.protocol.frames import start_response
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.protocol.primitives import Reader
from ottla.protocol.produce_client_codec import decode_produce_response
from ottla.protocol.produce_codec import decode_produce_request

from . import foreign

MESSAGES = foreign.all_messages()
BY_MESSAGE = foreign.versions_by_message()
HUGE_COUNTS = (bytes.fromhex("ffffffff0f"), bytes.fromhex("7fffffff"), bytes.fromhex("ffffff7f"))


def decoders(ours, version):
    """The generic decoder and, for the hot messages, the hand-written one."""
    yield lambda body: decode(ours, version, body)
    if ours is ProduceRequest:
        yield lambda body: decode_produce_request(memoryview(body), 0, version)
    if ours is FetchRequest:
        yield lambda body: decode_fetch_request(memoryview(body), 0, version)
    if ours in (ProduceResponse, FetchResponse):
        head = bytes(start_response(ours.API_KEY, version, 1)[4:])
        read = decode_produce_response if ours is ProduceResponse else decode_fetch_response
        yield lambda body: read(version, head + body)


def survives(read, body: bytes) -> None:
    try:
        read(body)
    except ProtocolViolation:
        pass


def mutations(data: bytes, rng: random.Random, count: int):
    for _ in range(count):
        body = bytearray(data)
        kind = rng.randrange(4)
        at = rng.randrange(len(body) + 1)
        if kind == 0:
            del body[at:]
        elif kind == 1:
            for _ in range(rng.randrange(1, 4)):
                if body:
                    body[rng.randrange(len(body))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            huge = rng.choice(HUGE_COUNTS)
            body[at : at + len(huge)] = huge
        else:
            body[at:at] = rng.randbytes(rng.randrange(1, 9))
        yield bytes(body)


@pytest.mark.parametrize("ours", BY_MESSAGE, ids=lambda ours: ours.__name__)
def test_mutated_message_is_read_or_refused_and_nothing_else(ours):
    rng = random.Random(ours.__name__)
    for version, theirs in BY_MESSAGE[ours]:
        bodies = [foreign.encode(entity) for entity in foreign.samples(theirs, 3)]
        for read in decoders(ours, version):
            for body in bodies:
                for mutated in mutations(body, rng, 12):
                    survives(read, mutated)


@pytest.mark.parametrize("ours", BY_MESSAGE, ids=lambda ours: ours.__name__)
def test_every_truncation_is_refused(ours):
    for version, theirs in BY_MESSAGE[ours]:
        bodies = [foreign.encode(entity) for entity in foreign.samples(theirs, 4)]
        body = min(bodies, key=lambda data: abs(len(data) - 80))
        step = max(1, len(body) // 30)
        for end in range(0, len(body), step):
            with pytest.raises(ProtocolViolation, match=f"{ours.__name__} v{version}: .* at byte "):
                decode(ours, version, body[:end])


def test_huge_counts_everywhere_allocate_nothing():
    tracemalloc.start()
    try:
        for ours, version, theirs in MESSAGES[::11]:
            body = foreign.encode(next(iter(foreign.samples(theirs, 0))))
            for read in decoders(ours, version):
                read(body)  # compiled now, so that only the reading is measured
                for at in range(len(body)):
                    for huge in HUGE_COUNTS:
                        tracemalloc.reset_peak()
                        before = tracemalloc.get_traced_memory()[0]
                        survives(read, body[:at] + huge + bytes(64))
                        assert tracemalloc.get_traced_memory()[1] - before < 100_000
    finally:
        tracemalloc.stop()


def test_random_bytes_are_read_or_refused():
    rng = random.Random(8)
    for ours, version, _ in MESSAGES:
        for read in decoders(ours, version):
            survives(read, rng.randbytes(rng.randrange(1, 60)))


def test_unknown_tagged_fields_are_skipped_in_every_flexible_message():
    for ours, version, theirs in MESSAGES:
        if not theirs.__flexible__:
            continue
        body = foreign.encode(next(iter(foreign.samples(theirs, 0))))
        assert body[-1] == 0  # the emptiest message has no tagged field
        reader = Reader(body[:-1] + b"\x01\xe8\x07\x03abc")
        assert decode(ours, version, reader) == decode(ours, version, body)
        assert reader.remaining == 0
