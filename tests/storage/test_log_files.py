"""The files of a log on the machine's own disk, judged by the dump tool, which shares no code with their making."""

import os
import socket
from pathlib import Path

from ottla.storage.dump import DumpProblem, dump_file
from ottla.storage.log_config import LogConfig
from ottla.storage.real_disk import RealDisk
from tests.storage.log_making import NOW_MS, append, batch, flush, open_log, read_all

_CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)


def _fill(directory: str) -> None:
    log = open_log(RealDisk(), _CONFIG, directory=directory)
    for number in range(300):
        append(log, b"%d" % number * 40, now_ms=NOW_MS + number % 37, leader_epoch=number // 100)
        records = batch(b"i", producer_id=1, producer_epoch=0, base_sequence=number, codec=number % 5)
        assert log.append_as_leader(records, leader_epoch=number // 100, now_ms=NOW_MS).error_code == 0
    flush(log)
    log.truncate_to(555, now_ms=NOW_MS)
    append(log, b"after the cut", leader_epoch=7)
    log.close(now_ms=NOW_MS)


def _problems(directory: str) -> list[DumpProblem]:
    disk = RealDisk()
    found = []
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".deleted"):
            found += [line for line in dump_file(disk, f"{directory}/{name}") if isinstance(line, DumpProblem)]
    return found


def test_the_dump_tool_finds_no_fault_in_what_was_appended(tmp_path: Path) -> None:
    directory = str(tmp_path / "orders-0")
    _fill(directory)
    assert _problems(directory) == []


def test_the_dump_tool_finds_no_fault_in_what_was_rebuilt(tmp_path: Path) -> None:
    directory = str(tmp_path / "orders-0")
    _fill(directory)
    expected = {name: (tmp_path / "orders-0" / name).read_bytes() for name in os.listdir(directory)}
    for name in expected:
        if name.endswith((".index", ".timeindex")):
            os.unlink(f"{directory}/{name}")
    with open(f"{directory}/{max(name for name in expected if name.endswith('.log'))}", "ab") as file:
        file.write(b"\0" * 1000)
    log = open_log(RealDisk(), _CONFIG, directory=directory, was_clean=False)
    assert log.recovery.bytes_truncated == 1000
    log.close(now_ms=NOW_MS)
    assert _problems(directory) == []
    for name, data in expected.items():
        if name.endswith(".index"):
            assert (tmp_path / "orders-0" / name).read_bytes() == data


def test_a_slice_can_be_sent_by_the_kernel(tmp_path: Path) -> None:
    log = open_log(RealDisk(), directory=str(tmp_path / "orders-0"))
    append(log, b"first")
    append(log, b"second")
    result = log.read(1, max_bytes=10_000)
    assert result.slice is not None
    reader, writer = socket.socketpair()
    with reader, writer:
        sent = os.sendfile(writer.fileno(), result.slice.file.fd, result.slice.position, result.slice.length)
        assert sent == result.slice.length
        assert b"second" in reader.recv(sent)


def test_an_idle_log_holds_no_descriptors(tmp_path: Path) -> None:
    directory = str(tmp_path / "orders-0")
    _fill(directory)
    before = len(os.listdir("/dev/fd"))
    log = open_log(RealDisk(), _CONFIG, directory=directory)
    assert len(os.listdir("/dev/fd")) == before
    assert len(read_all(log)) == 556
