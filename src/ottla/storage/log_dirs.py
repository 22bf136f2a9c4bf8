"""A log directory apart from the logs in it: its lock, its clean-shutdown marker, the names of its folders.

The lock works on the machine's own files, not through the disk port: it keeps other processes out.
"""

import fcntl
import json
import os
import re
from typing import NamedTuple

from ottla.core.disk import Disk
from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch, TopicPartition

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"

_PARTITION_NAME = re.compile(r"([A-Za-z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_TO_BE_DELETED_NAME = re.compile(r".+-[0-9]+\.[0-9a-f]+" + DELETE_SUFFIX)
_STRAY_NAME = re.compile(r".+-[0-9]+\.[0-9a-f]+" + STRAY_SUFFIX)


class LogDirLocked(Exception):
    """Another process serves this directory."""


class LogDirLock:
    """Held as long as a broker uses a directory; the kernel releases it with the process, so it can't be left over."""

    __slots__ = ("_fd",)

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        path = f"{directory}/{LOCK_FILE}"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            self._fd = -1
            raise LogDirLocked(
                f"{directory}: {path} is locked by another broker; stop it, or give this one its own log.dirs"
            ) from None

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def make_durably(disk: Disk, directory: str) -> None:
    """Make a directory, and those above it that are missing."""
    if disk.exists(directory):
        return
    parent = os.path.dirname(directory) or "."
    make_durably(disk, parent)
    disk.make_dirs(directory)
    disk.fsync_dir(parent)


class LogDirContents(NamedTuple):
    """What is in a log directory, but for its own files."""

    partitions: list[tuple[TopicPartition, str]]  # with the folder's path
    to_be_deleted: list[str]  # paths of folders whose deletion was begun
    strays: list[str]  # paths of folders that were set aside
    malformed: list[str]  # paths of what is not ours: folders, and files named like a partition


def scan_log_dir(disk: Disk, directory: str) -> LogDirContents:
    """Sort what is in a directory by what the names say."""
    contents = LogDirContents([], [], [], [])
    for entry in disk.list(directory):
        path = f"{directory}/{entry.name}"
        topic_partition = parse_partition_name(entry.name)
        if not entry.is_dir:
            if topic_partition is not None:
                contents.malformed.append(path)  # in the way of that partition
        elif _TO_BE_DELETED_NAME.fullmatch(entry.name):
            contents.to_be_deleted.append(path)
        elif _STRAY_NAME.fullmatch(entry.name):
            contents.strays.append(path)
        elif topic_partition is not None:
            contents.partitions.append((topic_partition, path))
        else:
            contents.malformed.append(path)
    return contents


def parse_partition_name(name: str) -> TopicPartition | None:
    """The partition that a folder is named after; topics may have dashes themselves."""
    match = _PARTITION_NAME.fullmatch(name)
    if match is None or match[1] in (".", ".."):
        return None
    return TopicPartition(match[1], int(match[2]))


def name_for_deletion(topic_partition: TopicPartition, unique: str) -> str:
    """The folder's name from the moment its partition is gone."""
    return _unique_name(topic_partition, unique, DELETE_SUFFIX)


def name_for_stray(topic_partition: TopicPartition, unique: str) -> str:
    """The name of a folder that belongs to no topic there is; it is never opened and never removed."""
    return _unique_name(topic_partition, unique, STRAY_SUFFIX)


def _unique_name(topic_partition: TopicPartition, unique: str, kind: str) -> str:
    """Cut to what a file system takes, as in Kafka."""
    suffix = f"-{topic_partition.partition}.{unique}{kind}"
    return topic_partition.topic[: 255 - len(suffix)] + suffix


def is_marked_clean(disk: Disk, directory: str, broker_epoch: BrokerEpoch | None) -> bool:
    """Whether the last stop was clean, and that of the broker's last life: one with this epoch. None: any life.

    The marker of an older life comes with a directory that was put back: what came later is not in it (KIP-966).
    """
    path = f"{directory}/{CLEAN_SHUTDOWN_FILE}"
    if not disk.exists(path):
        return False
    if broker_epoch is None:
        return True
    try:
        return bool(json.loads(disk.read(path))["brokerEpoch"] == broker_epoch)
    except (ValueError, KeyError, TypeError):
        return False


def take_clean_shutdown_marker(disk: Disk, directory: str) -> bool:
    """Was the last stop clean? The marker goes durably, so that a crash from now on counts as one."""
    path = f"{directory}/{CLEAN_SHUTDOWN_FILE}"
    if not disk.exists(path):
        return False
    disk.remove(path)
    disk.fsync_dir(directory)
    return True


def write_clean_shutdown_marker(disk: Disk, directory: str, broker_epoch: BrokerEpoch = NO_BROKER_EPOCH) -> None:
    """The last act of a clean stop: everything else in the directory is durable by now."""
    contents = b'{"version":0,"brokerEpoch":%d}' % broker_epoch
    disk.write_atomically(f"{directory}/{CLEAN_SHUTDOWN_FILE}", contents)
