"""Faults of storage against a running broker: files that are left over, damaged, or can't be written any more.

Torn and missing files around a restart are in test_torn_files.py. Failures of fsync, EIO and the loss of power need a
disk that fails on demand: tests/storage has them on the simulated one.
"""

import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.records.build import assemble_batch
from ottla.records.errors import CorruptBatch
from tests.processes import BrokerProcess, eventually
from tests.raw_wire import SOME_TIME_MS, RawClient, batch_of, read_records

pytestmark = pytest.mark.process

StartBroker = Callable[..., BrokerProcess]

OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
STORAGE_ERROR = 56


def fill(client: RawClient, topic: str, *, count: int, value_bytes: int = 200) -> list[bytes]:
    values = []
    for number in range(count):
        value = (b"%d " % number).ljust(value_bytes, b"x")
        produced = client.produce(topic, batch_of(value, timestamp_ms=SOME_TIME_MS + number))
        assert produced.error_code == 0
        values.append(value)
    return values


@pytest.mark.parametrize("is_clean", [True, False])
def test_files_left_over_by_an_earlier_process_are_finished_or_removed(
    start_broker: StartBroker, is_clean: bool
) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        client.create_topic("left", segment_bytes="1000")
        values = fill(client, "left", count=12)
    broker.stop() if is_clean else broker.kill()
    directory = broker.partition_dir("left")
    segments = sorted(directory.glob("*.log"))
    assert len(segments) > 2
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000000.index.deleted",
        "00000000000000000002.log.cleaned",
        "00000000000000000099.timeindex.cleaned",
        "leader-epoch-checkpoint.tmp",
    ):
        (directory / name).write_bytes(b"left over")
    # A swap that was complete when the process died: it takes the place of its segment.
    shutil.copy(segments[1], segments[1].with_name(segments[1].name + ".swap"))
    doomed = broker.data_dir / ("gone-0." + "ab" * 16 + "-delete")
    doomed.mkdir()
    (doomed / "00000000000000000000.log").write_bytes(b"old")
    (broker.data_dir / "lost+found").mkdir()
    broker.start()
    left = [path.name for path in directory.iterdir()]
    assert [name for name in left if name.endswith((".deleted", ".cleaned", ".swap", ".tmp"))] == []
    assert not doomed.exists()
    assert (broker.data_dir / "lost+found").is_dir()  # not ours, left alone
    with RawClient(broker.port) as client:
        assert [record.value for record in client.read_all("left")] == values
    assert "Traceback" not in broker.log


def test_bit_flip_in_an_old_segment_fails_the_reader_and_is_found_by_the_scrub(start_broker: StartBroker) -> None:
    broker = start_broker("ottla.log.scrub.interval.ms=100")
    with RawClient(broker.port) as client:
        client.create_topic("rotten", segment_bytes="1000")
        values = fill(client, "rotten", count=12)
        first = min(broker.partition_dir("rotten").glob("*.log"))
        data = bytearray(first.read_bytes())
        data[-20] ^= 1
        first.write_bytes(data)
        with pytest.raises(CorruptBatch):
            client.read_all("rotten")
        # The rest of the partition is served on, and written to.
        assert [record.value for record in client.read_all("rotten", offset=6)] == values[6:]
        assert client.produce("rotten", batch_of(b"new")).error_code == 0
        eventually(lambda: "is damaged at" in broker.log)
        assert str(first) in broker.log


@pytest.mark.parametrize("position", [8, 11, 16])  # twice in the length, the magic
def test_rotten_header_is_an_answer_and_no_accident(start_broker: StartBroker, position: int) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        client.create_topic("rotten", segment_bytes="1000")
        values = fill(client, "rotten", count=12)
        first = min(broker.partition_dir("rotten").glob("*.log"))
        data = bytearray(first.read_bytes())
        data[position] ^= 0x40
        first.write_bytes(data)
        for version in range(4, 13):
            fetched = client.fetch("rotten", 0, version=version)
            if fetched.error_code == 0:
                with pytest.raises(CorruptBatch):
                    read_records(fetched)
            assert fetched.error_code in (0, CORRUPT_MESSAGE)
            assert read_records(client.fetch("rotten", 6, version=version))[0].value == values[6]
        assert client.list_offset("rotten", SOME_TIME_MS + 6).error_code == 0
        assert client.produce("rotten", batch_of(b"new")).error_code == 0
    assert "Traceback" not in broker.log


def test_batch_of_garbage_with_a_sound_checksum_harms_nobody_else(start_broker: StartBroker) -> None:
    broker = start_broker("ottla.produce.validate.records=never")
    with RawClient(broker.port) as client:
        client.create_topic("garbage")
        fill(client, "garbage", count=3)
        for codec in range(5):
            batch = assemble_batch(
                b"\xff\x00garbage" * 20,
                record_count=7,
                last_offset_delta=6,
                base_timestamp_ms=SOME_TIME_MS + 100,
                max_timestamp_ms=SOME_TIME_MS + 200,
                attributes=codec,
            )
            assert client.produce("garbage", batch).error_code == 0
        fill(client, "garbage", count=2)
        for timestamp in (0, SOME_TIME_MS + 1, SOME_TIME_MS + 150, -1, -2, -3):
            assert client.list_offset("garbage", timestamp).error_code == 0
        assert len(client.read_all("garbage", offset=38)) == 2
    assert "Traceback" not in broker.log


def test_fetch_outside_of_the_log_is_out_of_range(shared_broker: BrokerProcess) -> None:
    with RawClient(shared_broker.port) as client:
        client.create_topic("ranged")
        fill(client, "ranged", count=5)
        for offset in (-1, -(2**63), 6, 7, 2**63 - 1):
            for version in range(4, 13):
                fetched = client.fetch("ranged", offset, version=version)
                assert (fetched.error_code, bytes(fetched.records or b"")) == (OFFSET_OUT_OF_RANGE, b"")  # type: ignore[arg-type]
        at_end = client.fetch("ranged", 5)
        assert (at_end.error_code, at_end.high_watermark) == (0, 5)


@pytest.fixture
def limited_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Brokers that may not write a file of more than a megabyte: the disk is full, as far as they can see."""
    started: list[BrokerProcess] = []

    def start(*overrides: str) -> BrokerProcess:
        broker = BrokerProcess(tmp_path / "data", *overrides)

        def limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error of the call instead of a signal
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * 1024, 1024 * 1024))

        broker.before_exec = limit
        started.append(broker)
        return broker.start()

    yield start
    for broker in started:
        broker.close()


def test_write_that_fails_is_answered_with_a_storage_error_and_the_broker_stays_up_on_another_directory(
    limited_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = limited_broker(f"log.dirs={first},{second}", f"ottla.coordination.path={tmp_path}/store.sqlite")
    with RawClient(broker.port) as client:
        client.create_topic("spread", partitions=2)
        values = []
        for number in range(40):
            value = b"%d " % number + bytes(50_000)
            produced = client.produce("spread", batch_of(value), partition=0)
            if produced.error_code:
                break
            values.append(value)
        assert produced.error_code == STORAGE_ERROR
        assert 15 <= len(values) < 22
        # Its directory is offline, for reading too, until the next start; the other one works.
        assert client.fetch("spread", 0, partition=0).error_code == STORAGE_ERROR
        assert client.list_offset("spread", -1, partition=0).error_code == STORAGE_ERROR
        assert client.produce("spread", batch_of(b"x"), partition=0).error_code == STORAGE_ERROR
        assert client.produce("spread", batch_of(b"other"), partition=1).error_code == 0
        assert [record.value for record in client.read_all("spread", partition=1)] == [b"other"]
        assert client.create_topic("later") == 0
        assert client.produce("later", batch_of(b"x")).error_code == 0
    assert "is offline" in broker.log
    assert broker.stop() == 0
    assert sum((directory / ".kafka_cleanshutdown").exists() for directory in (first, second)) == 1
    broker.before_exec = None  # there is room again
    broker.start()
    with RawClient(broker.port) as client:
        assert [record.value for record in client.read_all("spread", partition=0)] == values
        assert client.produce("spread", batch_of(b"again"), partition=0).base_offset == len(values)
    assert "Traceback" not in broker.log


@pytest.mark.parametrize("request_kind", ["fetch", "list offsets by time", "list offsets of the newest"])
def test_segment_that_vanishes_under_the_broker_is_a_storage_error_of_its_directory(
    start_broker: StartBroker, tmp_path: Path, request_kind: str
) -> None:
    broker = start_broker(
        f"log.dirs={tmp_path / 'first'},{tmp_path / 'second'}",
        f"ottla.coordination.path={tmp_path}/store.sqlite",
        "ottla.segment.open.files.max=8",
    )
    with RawClient(broker.port) as client:
        client.create_topic("robbed", partitions=2, segment_bytes="1000")
        for number in range(24):  # so many segments that few of their files are still open
            batch = batch_of(bytes(300), timestamp_ms=SOME_TIME_MS + (1000 if number == 1 else number))
            assert client.produce("robbed", batch).error_code == 0
        (directory,) = (path for path in (tmp_path / "first", tmp_path / "second") if (path / "robbed-0").is_dir())
        min((directory / "robbed-0").glob("*.log")).unlink()
        if request_kind == "fetch":
            assert client.fetch("robbed", 0).error_code == STORAGE_ERROR
        else:
            timestamp = SOME_TIME_MS if request_kind == "list offsets by time" else -3
            assert client.list_offset("robbed", timestamp).error_code == STORAGE_ERROR
        assert client.produce("robbed", batch_of(b"x")).error_code == STORAGE_ERROR
        assert client.produce("robbed", batch_of(b"x"), partition=1).error_code == 0
    assert f"log directory {directory} is offline" in broker.log
    assert "Traceback" not in broker.log


def test_broker_whose_only_directory_fails_answers_stops_and_says_why(
    limited_broker: Callable[..., BrokerProcess],
) -> None:
    broker = limited_broker()
    with RawClient(broker.port) as client:
        client.create_topic("full")
        values = []
        for number in range(40):
            value = b"%d " % number + bytes(50_000)
            produced = client.produce("full", batch_of(value))
            if produced.error_code:
                break
            values.append(value)
        assert produced.error_code == STORAGE_ERROR
    assert broker.process is not None
    assert broker.process.wait(timeout=30) == 1
    assert "no log directory is left" in broker.log
    broker.before_exec = None
    broker.start()
    with RawClient(broker.port) as client:
        assert [record.value for record in client.read_all("full")] == values


def test_directory_that_is_missing_at_the_start_does_not_lose_or_replace_its_partitions(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = start_broker(f"log.dirs={first},{second}", f"ottla.coordination.path={tmp_path}/store.sqlite")
    with RawClient(broker.port) as client:
        client.create_topic("halved", partitions=2)
        for partition in (0, 1):
            assert client.produce("halved", batch_of(b"in %d" % partition), partition=partition).error_code == 0
    broker.stop()
    second.rename(tmp_path / "unplugged")
    second.write_bytes(b"not a directory")
    broker.start()
    lost = 0 if (tmp_path / "unplugged" / "halved-0").is_dir() else 1
    with RawClient(broker.port) as client:
        assert [record.value for record in client.read_all("halved", partition=1 - lost)] == [b"in %d" % (1 - lost)]
        # It is not empty, it is not there: an empty log in its place would be a loss that nobody sees.
        assert client.fetch("halved", 0, partition=lost).error_code == STORAGE_ERROR
        assert client.produce("halved", batch_of(b"new"), partition=lost).error_code == STORAGE_ERROR
    broker.stop()
    second.unlink()
    (tmp_path / "unplugged").rename(second)
    broker.start()
    with RawClient(broker.port) as client:
        for partition in (0, 1):
            assert [record.value for record in client.read_all("halved", partition=partition)] == [b"in %d" % partition]


def test_deleted_topic_comes_back_empty_and_its_files_go(start_broker: StartBroker) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        client.create_topic("reborn", file_delete_delay_ms="0")
        fill(client, "reborn", count=3)
        answer = client.ask(DeleteTopicsRequest(topic_names=["reborn"], timeout_ms=1000), 5, DeleteTopicsResponse)
        assert answer.responses[0].error_code == 0
        assert client.produce("reborn", batch_of(b"x")).error_code == 3
        assert client.create_topic("reborn") == 0
        assert client.log_end_offset("reborn") == 0
        fill(client, "reborn", count=1)
    broker.kill()
    broker.start()
    with RawClient(broker.port) as client:
        assert client.log_end_offset("reborn") == 1
    eventually(lambda: not list(broker.data_dir.glob("*-delete")))
