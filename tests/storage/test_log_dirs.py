"""Lock, marker, folder names, and the small files that say whose data it is."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.core.types import TopicPartition
from ottla.storage.checkpoints import MalformedCheckpoint
from ottla.storage.log_dirs import (
    LogDirLock,
    LogDirLocked,
    name_for_deletion,
    parse_partition_name,
    scan_log_dir,
    take_clean_shutdown_marker,
    write_clean_shutdown_marker,
)
from ottla.storage.meta_properties import ForeignLogDir, MetaProperties, claim_log_dir, read_meta_properties
from ottla.storage.partition_metadata import parse_topic_id, read_topic_id, topic_id_text, write_topic_id
from ottla.testing.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    disk.fsync_dir("/")
    return disk


def test_second_broker_on_a_directory_is_refused(tmp_path: Path) -> None:
    lock = LogDirLock(str(tmp_path))
    with pytest.raises(LogDirLocked, match="another broker"):
        LogDirLock(str(tmp_path))
    lock.release()
    LogDirLock(str(tmp_path)).release()


def test_lock_of_another_process_ends_with_it(tmp_path: Path) -> None:
    program = (
        "import sys; from ottla.storage.log_dirs import LogDirLock;"
        f"lock = LogDirLock({str(tmp_path)!r}); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LogDirLocked):
            LogDirLock(str(tmp_path))
        other.kill()
        other.wait()
    LogDirLock(str(tmp_path)).release()


def test_marker_is_taken_once_and_durably(disk: SimulatedDisk) -> None:
    assert not take_clean_shutdown_marker(disk, "/d")
    write_clean_shutdown_marker(disk, "/d")
    assert disk.read("/d/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    disk = disk.crash()
    assert take_clean_shutdown_marker(disk, "/d")
    disk = disk.crash()
    assert not take_clean_shutdown_marker(disk, "/d")


def test_folders_are_sorted_by_their_names(disk: SimulatedDisk) -> None:
    for name in ("orders-0", "a-b.c-12", "orders-1.00ff-delete", "x-1.ff-delete-3", "lost+found", "orders-01", "-1"):
        disk.make_dirs(f"/d/{name}")
    disk.write_atomically("/d/orders-7", b"a file")
    contents = scan_log_dir(disk, "/d")
    assert contents.partitions == [
        (TopicPartition("orders", 0), "/d/orders-0"),
        (TopicPartition("a-b.c", 12), "/d/a-b.c-12"),
        (TopicPartition("x-1.ff-delete", 3), "/d/x-1.ff-delete-3"),
    ]
    assert contents.to_be_deleted == ["/d/orders-1.00ff-delete"]
    assert contents.malformed == ["/d/lost+found", "/d/orders-01", "/d/-1", "/d/orders-7"]


def test_name_for_deletion_fits_a_file_system_and_is_recognised() -> None:
    assert name_for_deletion(TopicPartition("orders", 3), "ab12") == "orders-3.ab12-delete"
    name = name_for_deletion(TopicPartition("t" * 249, 3), "0" * 32)
    assert len(name) == 255
    assert parse_partition_name(name) is None


@pytest.mark.parametrize("name", ["..-1", ".-1", "a", "a-", "a-b", "a/b-1", "a-99999999999", "t" * 250 + "-1"])
def test_names_of_no_partition(name: str) -> None:
    assert parse_partition_name(name) is None


def test_topic_id_is_kafkas_text(disk: SimulatedDisk) -> None:
    topic_id = bytes.fromhex("fbefbe000102030405060708090a0bff")
    write_topic_id(disk, "/d", topic_id)
    assert disk.read("/d/partition.metadata") == b"version: 0\ntopic_id: " + topic_id_text(topic_id).encode()
    assert topic_id_text(topic_id).startswith("---")
    assert len(topic_id_text(topic_id)) == 22
    assert read_topic_id(disk, "/d") == topic_id
    assert parse_topic_id("AAAAAAAAAAAAAAAAAAAAAQ") == bytes(15) + b"\x01"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"version: 0\n",
        b"version: 0\ntopic_id: AAAA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: AAAAAAAAAAA AAAAAAAAAAQ",
        b"\xff\xfe",
    ],
)
def test_malformed_partition_metadata_is_refused(disk: SimulatedDisk, data: bytes) -> None:
    disk.write_atomically("/d/partition.metadata", data)
    with pytest.raises(MalformedCheckpoint):
        read_topic_id(disk, "/d")


def test_new_directory_is_claimed_and_known_again(disk: SimulatedDisk) -> None:
    mine = MetaProperties(1, "abc")
    claim_log_dir(disk, "/d", mine)
    assert disk.read("/d/meta.properties") == b"#\nversion=0\nbroker.id=1\ncluster.id=abc\n"
    claim_log_dir(disk.crash(), "/d", mine)


def test_kafkas_own_file_is_understood(disk: SimulatedDisk) -> None:
    disk.write_atomically(
        "/d/meta.properties", b"#\n#Tue Mar 04 10:11:12 UTC 2025\ncluster.id=x-Y_1\nversion=0\nbroker.id=3\n"
    )
    assert read_meta_properties(disk, "/d") == MetaProperties(3, "x-Y_1")


def test_directory_of_another_broker_or_cluster_is_refused(disk: SimulatedDisk) -> None:
    claim_log_dir(disk, "/d", MetaProperties(1, "abc"))
    with pytest.raises(ForeignLogDir, match=r"belongs to broker 1, this broker is 2"):
        claim_log_dir(disk, "/d", MetaProperties(2, "abc"))
    with pytest.raises(ForeignLogDir, match=r"belongs to cluster abc, this broker is in cluster xyz"):
        claim_log_dir(disk, "/d", MetaProperties(1, "xyz"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version=1\nnode.id=1\ncluster.id=a\n",
        b"version=0\nbroker.id=x\ncluster.id=a\n",
        b"version=0\nbroker.id=1\n",
    ],
)
def test_unreadable_meta_properties_are_refused(disk: SimulatedDisk, data: bytes) -> None:
    disk.write_atomically("/d/meta.properties", data)
    with pytest.raises(ForeignLogDir):
        claim_log_dir(disk, "/d", MetaProperties(1, "a"))
