"""Answers on their way out: by send, by read and by sendfile; slow peers; files that are cold or end too early."""

import errno
import os
import queue
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.core.disk import FileSlice
from ottla.core.exchange import Deferred
from ottla.net import outbox
from ottla.net.limits import NetworkLimits

from .harness import WAIT_S, MemoryFile, RealFile, RunningServer, frame

MEGABYTE = 1024 * 1024
CONTENT = os.urandom(5 * MEGABYTE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.parametrize("is_real", [True, False])
def test_slices_of_every_size_arrive_byte_for_byte_among_buffers(path: Path, *, is_real: bool) -> None:
    file = RealFile(str(path)) if is_real else MemoryFile(CONTENT)
    crossover = outbox.SENDFILE_MIN_BYTES
    lengths = [0, 1, 4096, crossover - 1, crossover, crossover + 1, 3 * MEGABYTE, 17]

    def fetch(received: memoryview, peer: object) -> list[bytes | FileSlice]:
        parts: list[bytes | FileSlice] = [(sum(lengths) + 3 * len(lengths)).to_bytes(4, "big")]
        for index, length in enumerate(lengths):
            parts += [b"<%d>" % index, FileSlice(file, 100 * index, length)]
        return parts

    expected = b"".join(
        b"<%d>" % index + CONTENT[100 * index : 100 * index + length] for index, length in enumerate(lengths)
    )
    with RunningServer(fetch) as running:
        client = running.connect(receive_buffer_bytes=20_000)
        for _ in range(3):
            client.send(frame(b"?") * 2)
            assert client.receive() == expected
            assert client.receive() == expected
        assert running.settled().metrics.bytes_out == 6 * (4 + len(expected))


def test_deferred_answer_may_have_slices(path: Path) -> None:
    parked: queue.Queue[Deferred] = queue.Queue()

    def park(received: memoryview, peer: object) -> Deferred:
        deferred = Deferred(holds=True)
        parked.put(deferred)
        return deferred

    with RunningServer(park) as running:
        client = running.connect()
        client.send(frame(b"?"))
        size = MEGABYTE.to_bytes(4, "big")
        running.complete(parked.get(timeout=WAIT_S), [size, FileSlice(RealFile(str(path)), 7, MEGABYTE)])
        assert client.receive() == CONTENT[7 : 7 + MEGABYTE]


def _kernel_that_answers_probes_with(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Eviction can't be forced, so the one system call is replaced; the list grows with each probe."""
    real_preadv = os.preadv
    probes: list[int] = []

    def preadv(fd: int, buffers: Sequence[bytearray], position: int, flags: int = 0) -> int:
        if not flags & os.RWF_NOWAIT:
            return real_preadv(fd, buffers, position, flags)
        probes.append(position)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "preadv", preadv)
    return probes


@pytest.mark.parametrize("length", [10_000, 3 * MEGABYTE])
def test_cold_slice_is_read_by_a_thread_and_arrives(path: Path, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _kernel_that_answers_probes_with(monkeypatch, errno.EAGAIN)
    part = FileSlice(RealFile(str(path)), MEGABYTE, length)

    def fetch(received: memoryview, peer: object) -> list[bytes | FileSlice] | bytes:
        return [(length + 3).to_bytes(4, "big") + b"abc", part] if received == b"?" else frame(b"after")

    with RunningServer(fetch) as running:
        client = running.connect()
        client.send((frame(b"?") + frame(b"!")) * 2)
        for _ in range(2):
            assert client.receive() == b"abc" + CONTENT[MEGABYTE : MEGABYTE + length]
            assert client.receive() == b"after"
        assert running.settled().metrics.cold_reads >= 2


@pytest.mark.parametrize("length", [10_000, 3 * MEGABYTE])
def test_connection_may_end_while_a_thread_reads_for_it(
    path: Path, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _kernel_that_answers_probes_with(monkeypatch, errno.EAGAIN)
    part = FileSlice(RealFile(str(path)), 0, length)
    with RunningServer(lambda received, peer: [length.to_bytes(4, "big"), part]) as running:
        is_thread_free = threading.Event()
        running.executor.submit(is_thread_free.wait, WAIT_S)  # the only thread: the read waits behind this
        client, other = running.connect(), running.connect()
        client.send(frame(b"?"))
        running.wait_until(lambda: running.server.metrics.cold_reads == 1)
        client.close()
        running.wait_until(lambda: running.server.metrics.connections == 1)
        is_thread_free.set()
        other.send(frame(b"?"))
        assert other.receive() == CONTENT[:length]


@pytest.mark.parametrize("length", [10_000, 3 * MEGABYTE])
def test_file_system_that_cannot_tell_is_asked_once(path: Path, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    probes = _kernel_that_answers_probes_with(monkeypatch, errno.EOPNOTSUPP)
    part = FileSlice(RealFile(str(path)), 0, length)
    with RunningServer(lambda received, peer: [length.to_bytes(4, "big"), part]) as running:
        client = running.connect()
        for _ in range(3):
            client.send(frame(b"?"))
            assert client.receive() == CONTENT[:length]
        assert len(probes) == 1
        assert running.settled().metrics.cold_reads == 0


@pytest.mark.parametrize("length", [10_000, 3 * MEGABYTE])
@pytest.mark.parametrize("is_real", [True, False])
def test_file_that_ends_inside_a_slice_closes_the_connection(path: Path, length: int, *, is_real: bool) -> None:
    file = RealFile(str(path)) if is_real else MemoryFile(CONTENT)

    def fetch(received: memoryview, peer: object) -> list[bytes | FileSlice]:
        return [length.to_bytes(4, "big"), FileSlice(file, len(CONTENT) - 5000, length)]

    with RunningServer(fetch) as running:
        client = running.connect()
        client.send(frame(b"?"))
        with pytest.raises((EOFError, ConnectionResetError)):
            client.receive()
        assert running.settled().metrics.closed == {"file truncated under an answer": 1}


def test_slice_survives_when_everybody_else_lets_go_of_its_file(path: Path) -> None:
    def fetch(received: memoryview, peer: object) -> list[bytes | FileSlice]:
        return [(4 * MEGABYTE).to_bytes(4, "big"), FileSlice(RealFile(str(path)), 0, 4 * MEGABYTE)]

    with RunningServer(fetch, NetworkLimits(socket_send_buffer_bytes=50_000)) as running:
        client = running.connect(receive_buffer_bytes=20_000)
        client.send(frame(b"?"))
        assert client.receive_exactly(4)
        path.unlink()
        assert client.receive_exactly(4 * MEGABYTE) == CONTENT[: 4 * MEGABYTE]


def test_slow_reader_is_bounded_and_affects_nobody_else() -> None:
    started: list[bytes] = []
    answer = frame(os.urandom(MEGABYTE))

    def answer_large(received: memoryview, peer: object) -> bytes:
        started.append(bytes(received))
        return answer if received == b"large" else frame(b"small")

    with RunningServer(answer_large, NetworkLimits(socket_send_buffer_bytes=50_000)) as running:
        slow, quick = running.connect(receive_buffer_bytes=20_000), running.connect()
        slow.send(frame(b"large") * 60)
        running.wait_until(lambda: started.count(b"large") >= 4)
        for _ in range(200):
            assert quick.ask(b"?") == b"small"
        assert started.count(b"large") <= 6
        for _ in range(60):
            assert slow.receive_exactly(len(answer)) == answer


def test_answers_that_wait_behind_a_deferred_one_are_bounded() -> None:
    parked: list[Deferred] = []
    started: list[int] = []
    answer = frame(bytes(MEGABYTE))

    def handler(received: memoryview, peer: object) -> bytes | Deferred:
        started.append(received[0])
        if received[0] == 1:
            parked.append(Deferred(holds=False))
            return parked[-1]
        return answer

    with RunningServer(handler) as running:
        client, other = running.connect(), running.connect()
        client.send(frame(b"\x01") + frame(b"\x02") * 50)
        running.wait_until(lambda: started.count(2) >= 4)
        for _ in range(50):
            other.ask(b"\x03")
        assert started.count(2) <= 6
        running.complete(parked[0], frame(b"first"))
        assert client.receive() == b"first"
        for _ in range(50):
            assert client.receive_exactly(len(answer)) == answer


def test_peer_that_takes_nothing_is_closed_and_its_requests_abandoned() -> None:
    limits = NetworkLimits(sweep_interval_ms=5, write_stall_ms=50, socket_send_buffer_bytes=50_000)
    answer = frame(bytes(3 * MEGABYTE))
    abandoned = threading.Event()

    def handler(received: memoryview, peer: object) -> bytes | Deferred:
        if received == b"large":
            return answer
        deferred = Deferred(holds=False)
        deferred.on_abandon = abandoned.set
        return deferred

    with RunningServer(handler, limits) as running:
        client = running.connect(receive_buffer_bytes=20_000)
        client.send(frame(b"large") + frame(b"wait"))
        assert abandoned.wait(WAIT_S)
        assert running.settled().metrics.closed == {"output not taken": 1}
