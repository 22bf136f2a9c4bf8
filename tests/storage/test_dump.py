"""`ottla dump-log` and the reader behind it, on files that the tests write byte by byte."""

import json
from struct import pack

import google_crc32c
import pytest

from ottla.cli.main import main
from ottla.records.build import BatchBuilder, build_batch, build_end_transaction_marker
from ottla.records.compression import GZIP, ZSTD
from ottla.records.header import write_crc
from ottla.storage.dump import DumpEntry, DumpProblem, UnknownFile, dump_file
from ottla.storage.real_disk import RealDisk

NOW_MS = 1_700_000_000_000
BASE_OFFSET = 100
NAME = f"{BASE_OFFSET:020d}"


def batches() -> list[bytearray]:
    """Offsets 100-101, 102 (compressed), 103 (a marker), 110 (after a gap left by cleaning)."""
    return [
        build_batch(
            [(NOW_MS, b"k1", b"v1", [("trace", b"x")]), (NOW_MS + 1, None, b"v2", [])],
            base_offset=100,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=1,
            base_sequence=2**31 - 1,
            is_transactional=True,
        ),
        build_batch([(NOW_MS + 2, b"k3", b"\xff\xfe", [])], codec=ZSTD, base_offset=102, leader_epoch=0),
        build_end_transaction_marker(
            is_commit=False,
            producer_id=7,
            producer_epoch=1,
            coordinator_epoch=4,
            timestamp_ms=NOW_MS + 3,
            base_offset=103,
            leader_epoch=1,
        ),
        build_batch([(NOW_MS + 9, b"k4", None, [])], codec=GZIP, base_offset=110, leader_epoch=1),
    ]


@pytest.fixture
def folder(tmp_path):
    """A segment with all that belongs to it."""
    parts = batches()
    positions = [sum(len(part) for part in parts[:index]) for index in range(len(parts))]
    (tmp_path / f"{NAME}.log").write_bytes(b"".join(parts))
    (tmp_path / f"{NAME}.index").write_bytes(pack(">iiii", 2, positions[1], 10, positions[3]))
    (tmp_path / f"{NAME}.timeindex").write_bytes(pack(">qiqi", NOW_MS + 2, 2, NOW_MS + 9, 10))
    (tmp_path / f"{NAME}.txnindex").write_bytes(pack(">hqqqq", 0, 7, 100, 103, 104))
    entries = pack(">qhiqiqiq", 7, 1, 0, 101, 1, NOW_MS + 1, 4, 100) + pack(">qhiqiqiq", 8, 0, -1, -1, 0, 5, -1, -1)
    body = pack(">i", 2) + entries
    (tmp_path / f"{NAME}.snapshot").write_bytes(pack(">hI", 1, google_crc32c.value(body)) + body)
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n0 100\n1 103\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\norders 0 5\norders 1 0\n")
    return tmp_path


def dumped(path, *, with_records=False):
    return list(dump_file(RealDisk(), str(path), with_records=with_records))


def problems(path, *, with_records=True):
    return [item.message for item in dumped(path, with_records=with_records) if isinstance(item, DumpProblem)]


def entries(path, kind, *, with_records=False):
    return [
        item.fields
        for item in dumped(path, with_records=with_records)
        if isinstance(item, DumpEntry) and item.kind == kind
    ]


def overwrite(path, position, data):
    contents = bytearray(path.read_bytes())
    contents[position : position + len(data)] = data
    path.write_bytes(contents)


def test_sound_files_have_no_problems(folder):
    for path in folder.iterdir():
        assert problems(path) == []


def test_log_gives_a_line_per_batch(folder):
    found = entries(folder / f"{NAME}.log", "batch")
    assert [(batch["baseOffset"], batch["lastOffset"], batch["count"]) for batch in found] == [
        (100, 101, 2),
        (102, 102, 1),
        (103, 103, 1),
        (110, 110, 1),
    ]
    assert [batch["compresscodec"] for batch in found] == ["none", "zstd", "none", "gzip"]
    assert [batch["isControl"] for batch in found] == [False, False, True, False]
    assert found[0]["lastSequence"] == 0  # it wrapped
    assert all(batch["isvalid"] for batch in found)


def test_records_are_read_when_asked_for(folder):
    path = folder / f"{NAME}.log"
    assert entries(path, "record") == []
    found = entries(path, "record", with_records=True)
    assert [(record["offset"], record.get("payload")) for record in found] == [
        (100, b"v1"),
        (101, b"v2"),
        (102, b"\xff\xfe"),
        (103, None),
        (110, None),
    ]
    assert [record["sequence"] for record in found] == [2**31 - 1, 0, -1, -1, -1]
    assert found[0]["headerKeys"] == ["trace"]
    assert (found[3]["endTxnMarker"], found[3]["coordinatorEpoch"]) == ("ABORT", 4)


def test_flipped_bit_in_the_log_is_named_and_the_rest_still_read(folder):
    path = folder / f"{NAME}.log"
    overwrite(path, 70, b"\x00")
    assert problems(path) == [message for message in problems(path) if "position 0: the checksum" in message] != []
    assert [batch["isvalid"] for batch in entries(path, "batch")] == [False, True, True, True]


def test_torn_tail_is_a_problem(folder):
    path = folder / f"{NAME}.log"
    data = path.read_bytes()
    for cut in (1, 30, len(batches()[3]) - 20):
        path.write_bytes(data[:-cut])
        assert len(problems(path)) == 1
        assert len(entries(path, "batch")) == 3


def test_zeros_of_a_preallocated_log_are_no_problem(folder):
    path = folder / f"{NAME}.log"
    for zeros in (3, 61, 100_000):
        path.write_bytes(b"".join(batches()) + bytes(zeros))
        assert problems(path) == []
        assert len(entries(path, "batch")) == 4


def test_offsets_and_epochs_must_grow(folder):
    path = folder / f"{NAME}.log"
    first, second, third, fourth = batches()
    path.write_bytes(b"".join([third, first, second, fourth]))
    found = problems(path)
    assert [message for message in found if "base offset 100, at least 104 expected" in message]
    assert [message for message in found if "leader epoch 0 after 1" in message]
    (folder / f"{200:020d}.log").write_bytes(first)
    assert "base offset 100, at least 200 expected" in problems(folder / f"{200:020d}.log")[0]


def test_count_over_the_range_of_offsets_is_a_problem(folder):
    path = folder / f"{NAME}.log"
    batch = batches()[0]
    batch[57:61] = pack(">i", 3)
    write_crc(batch, 0, len(batch))
    path.write_bytes(batch)
    assert "position 0: 3 records in 2 offsets" in problems(path)


def test_broken_records_under_a_right_checksum_are_found_when_read(folder):
    path = folder / f"{NAME}.log"
    batch = batches()[0]
    batch[61] = 0x7E
    write_crc(batch, 0, len(batch))
    path.write_bytes(batch)
    assert problems(path, with_records=False) == []
    assert len(problems(path)) == 1


def test_batch_emptied_by_the_cleaner_is_sound(folder):
    path = folder / f"{NAME}.log"
    path.write_bytes(BatchBuilder(delete_horizon_ms=5).build(base_offset=100, last_offset_delta=4))
    assert problems(path) == []
    (batch,) = entries(path, "batch")
    assert (batch["lastOffset"], batch["count"], batch["deleteHorizonMs"]) == (104, 0, 5)


def test_offset_index_entries_are_absolute(folder):
    first = len(batches()[0])
    assert entries(folder / f"{NAME}.index", "offset")[0] == {"offset": 102, "position": first}


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_zeros_of_a_preallocated_index_are_no_entries(folder, suffix):
    path = folder / f"{NAME}.{suffix}"
    before = dumped(path)
    path.write_bytes(path.read_bytes() + bytes(12_000))
    assert dumped(path) == before
    path.write_bytes(bytes(12_000))
    assert dumped(path) == []


@pytest.mark.parametrize(
    "contents",
    [
        pack(">ii", 2, 1),  # within a batch
        pack(">ii", 1, len(batches()[0])),  # another batch's offset
        pack(">ii", 2, 10_000_000),  # after the log's end
        pack(">ii", 2, -5),
        pack(">iiii", 2, len(batches()[0]), 1, 0),  # falling
    ],
)
def test_offset_index_that_disagrees_with_the_log_is_a_problem(folder, contents):
    path = folder / f"{NAME}.index"
    path.write_bytes(contents)
    assert problems(path)


@pytest.mark.parametrize(
    "contents",
    [
        pack(">qi", NOW_MS + 5, 2),  # no such time in the batch
        pack(">qi", NOW_MS + 2, 7),  # an offset that was cleaned away
        pack(">qi", NOW_MS + 2, 50),  # after the log's end
        pack(">qiqi", NOW_MS + 9, 10, NOW_MS + 2, 10),  # falling
    ],
)
def test_time_index_that_disagrees_with_the_log_is_a_problem(folder, contents):
    path = folder / f"{NAME}.timeindex"
    path.write_bytes(contents)
    assert problems(path)


def test_time_index_over_a_broken_log_is_a_problem(folder):
    overwrite(folder / f"{NAME}.log", 8, pack(">i", 2))
    assert "not compared" in problems(folder / f"{NAME}.timeindex")[0]


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
def test_index_that_ends_within_an_entry_is_a_problem(folder, suffix):
    path = folder / f"{NAME}.{suffix}"
    path.write_bytes(path.read_bytes() + b"\x01\x02\x03")
    assert "not a whole number" in problems(path)[0]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_index_without_its_log_is_a_problem(folder, suffix):
    (folder / f"{NAME}.log").unlink()
    assert "not there to compare with" in problems(folder / f"{NAME}.{suffix}")[0]


def test_index_on_its_way_out_is_compared_with_its_own_log(folder):
    for suffix in ("log", "index"):
        (folder / f"{NAME}.{suffix}").rename(folder / f"{NAME}.{suffix}.deleted")
    assert problems(folder / f"{NAME}.index.deleted") == []
    assert len(entries(folder / f"{NAME}.log.deleted", "batch")) == 4


def test_transaction_index(folder):
    path = folder / f"{NAME}.txnindex"
    assert entries(path, "aborted") == [
        {"version": 0, "producerId": 7, "firstOffset": 100, "lastOffset": 103, "lastStableOffset": 104}
    ]
    path.write_bytes(pack(">hqqqq", 1, 7, 105, 103, 104) + pack(">hqqqq", 0, 7, 100, 101, 104))
    assert len(problems(path)) == 3


def test_snapshot(folder):
    path = folder / f"{NAME}.snapshot"
    first, second = entries(path, "producer")
    assert (first["producerId"], first["firstSequence"], first["lastSequence"]) == (7, 2**31 - 1, 0)
    assert (first["currentTxnFirstOffset"], second["currentTxnFirstOffset"]) == (100, None)
    assert (second["firstSequence"], second["lastSequence"]) == (-1, -1)
    overwrite(path, 20, b"\x55")
    assert "checksum" in problems(path)[0]


def test_checkpoints(folder):
    assert entries(folder / "leader-epoch-checkpoint", "epoch")[1] == {"leaderEpoch": 1, "startOffset": 103}
    assert entries(folder / "recovery-point-offset-checkpoint", "checkpoint")[0] == {
        "topic": "orders",
        "partition": 0,
        "offset": 5,
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("leader-epoch-checkpoint", "0\n2\n1 100\n0 103\n"),
        ("leader-epoch-checkpoint", "0\n2\n1 100\n"),
        ("leader-epoch-checkpoint", ""),
        ("replication-offset-checkpoint", "0\n2\na 0 1\na 0 2\n"),
        ("replication-offset-checkpoint", "0\n1\na 0 x\n"),
        ("log-start-offset-checkpoint", "7\n0\n"),
    ],
)
def test_malformed_checkpoints_are_problems(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert len(problems(tmp_path / name)) == 1


@pytest.mark.parametrize("name", ["notes.txt", f"{NAME}.bak", "123.log"])
def test_foreign_names_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UnknownFile):
        dump_file(RealDisk(), str(tmp_path / name))
    assert main(["dump-log", str(tmp_path / name)]) == 2


def test_command_prints_the_lines_of_kafkas_tool(folder, capsys):
    path = folder / f"{NAME}.log"
    assert main(["dump-log", "--print-data-log", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = batches()[0]
    crc = int.from_bytes(first[17:21], "big")
    assert lines[0] == f"Dumping {path}"
    assert lines[1] == "Log starting offset: 100"
    assert lines[2] == (
        "baseOffset: 100 lastOffset: 101 count: 2 baseSequence: 2147483647 lastSequence: 0 producerId: 7"
        " producerEpoch: 1 partitionLeaderEpoch: 0 isTransactional: true isControl: false"
        f" deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: {NOW_MS + 1} size: {len(first)} magic: 2"
        f" compresscodec: none crc: {crc} isvalid: true"
    )
    assert lines[3] == (
        f"| offset: 100 CreateTime: {NOW_MS} keySize: 2 valueSize: 2 sequence: 2147483647 headerKeys: [trace]"
        " key: k1 payload: v1"
    )
    assert lines[4].endswith("keySize: -1 valueSize: 2 sequence: 0 headerKeys: [] payload: v2")
    assert lines[8].endswith("headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 4")


def test_command_leaves_data_out_unless_asked(folder, capsys):
    path = str(folder / f"{NAME}.log")
    assert main(["dump-log", path]) == 0
    assert "| " not in capsys.readouterr().out
    assert main(["dump-log", "--deep", path]) == 0
    out = capsys.readouterr().out
    assert out.count("| offset") == 5
    assert "payload" not in out


def test_command_prints_json_lines(folder, capsys):
    paths = [str(path) for path in sorted(folder.iterdir())]
    assert main(["dump-log", "--json", "--print-data-log", *paths]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["file"] for line in lines} == set(paths)
    assert {line["kind"] for line in lines} == {
        "batch",
        "record",
        "offset",
        "time",
        "aborted",
        "producer",
        "epoch",
        "checkpoint",
    }
    assert [line["payloadBase64"] for line in lines if "payloadBase64" in line] == ["//4="]
    assert [line["deleteHorizonMs"] for line in lines if line["kind"] == "batch"] == [None] * 4


def test_command_verifies(folder, capsys):
    log = folder / f"{NAME}.log"
    index = folder / f"{NAME}.index"
    assert main(["dump-log", "--verify", str(log), str(index)]) == 0
    assert capsys.readouterr().out == f"{log}: 4 entries, no problems\n{index}: 2 entries, no problems\n"
    overwrite(log, 70, b"\x00")
    assert main(["dump-log", "--verify", str(log), str(index)]) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{log}: 4 entries, 1 problem\n{index}: 2 entries, no problems\n"
    assert captured.err.startswith(f"{log}: position 0: the checksum")
    assert main(["dump-log", "--verify", "--json", str(log)]) == 1
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["problem", "summary"]


def test_command_ends_with_2_on_wrong_usage(tmp_path, capsys):
    assert main(["dump-log"]) == 2
    assert main(["dump-log", str(tmp_path / f"{NAME}.log")]) == 2
    assert main(["dump-log", str(tmp_path)]) == 2
    assert "does not exist" in capsys.readouterr().err
