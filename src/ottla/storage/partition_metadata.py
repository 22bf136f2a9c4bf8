"""`partition.metadata` in a partition's folder: the id of the topic that the folder belongs to.

It distinguishes a partition from one of a deleted topic that had the same name.
"""

from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from functools import partial

from ottla.core.disk import Disk
from ottla.storage.checkpoints import MalformedCheckpoint
from ottla.storage.log import Log
from ottla.storage.logs_by_dir import LogsByDir, directory_of
from ottla.storage.segment_files import PARTITION_METADATA_FILE

TOPIC_ID_BYTES = 16
ZERO_TOPIC_ID = bytes(TOPIC_ID_BYTES)

_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_VERSION_LINE = "version: 0"
_TOPIC_ID_FIELD = "topic_id: "


def topic_id_text(topic_id: bytes) -> str:
    """A topic id as Kafka prints it: URL-safe base64 without padding."""
    return b2a_base64(topic_id, newline=False).translate(_TO_URL_SAFE).rstrip(b"=").decode()


def parse_topic_id(text: str) -> bytes:
    """The 16 bytes behind the text; ValueError when it is none of Kafka's ids."""
    try:
        topic_id = a2b_base64(text.encode("ascii").translate(_FROM_URL_SAFE) + b"==", strict_mode=True)
    except (BinasciiError, UnicodeEncodeError):
        topic_id = b""
    if len(topic_id) != TOPIC_ID_BYTES:
        raise ValueError(f"{text!r} is not a topic id: 22 characters of URL-safe base64 expected")
    return topic_id


def read_topic_id(disk: Disk, directory: str) -> bytes:
    """The topic id kept in the folder of a partition, which must have the file."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    data = disk.read(path)
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError:
        lines = []
    if len(lines) != 2 or lines[0] != _VERSION_LINE or not lines[1].startswith(_TOPIC_ID_FIELD):
        raise MalformedCheckpoint(f"{path}: {data[:80]!r} is not a version 0 line and a topic id line")
    try:
        topic_id = parse_topic_id(lines[1][len(_TOPIC_ID_FIELD) :])
    except ValueError as error:
        raise MalformedCheckpoint(f"{path}: {error}") from None
    if topic_id == ZERO_TOPIC_ID:
        raise MalformedCheckpoint(f"{path}: the zero id belongs to no topic")
    return topic_id


def read_topic_id_or_none(disk: Disk, path: str) -> bytes | None:
    """The id in a partition's folder; None when its file is missing or malformed."""
    try:
        return read_topic_id(disk, path) if disk.exists(f"{path}/{PARTITION_METADATA_FILE}") else None
    except MalformedCheckpoint:
        return None


def write_topic_id(disk: Disk, directory: str, topic_id: bytes) -> None:
    """Not durable by itself, so that a topic of a thousand partitions is made in no time."""
    file = disk.open_append(f"{directory}/{PARTITION_METADATA_FILE}")
    try:
        file.truncate(0)
        file.append(f"{_VERSION_LINE}\n{_TOPIC_ID_FIELD}{topic_id_text(topic_id)}".encode())
    finally:
        file.close()


def _sync_topic_ids(disk: Disk, folders: Iterable[str]) -> None:
    """Make the files in these folders durable; a folder may be gone again."""
    for folder in folders:
        path = f"{folder}/{PARTITION_METADATA_FILE}"
        if disk.exists(path):
            file = disk.open_append(path)
            try:
                file.fsync()
            finally:
                file.close()
            disk.fsync_dir(folder)


class TopicIdFiles:
    """The files of all partitions, and those that are not durable yet, by log directory. Owned by the log manager."""

    __slots__ = ("_being_synced", "_disk", "_logs", "_unsynced")

    def __init__(self, disk: Disk, logs: LogsByDir) -> None:
        self._disk = disk
        self._logs = logs
        self._unsynced: dict[str, list[str]] = {}
        self._being_synced: dict[str, list[str]] = {}

    def read(self, log: Log) -> bytes | None:
        """None when the file is missing or malformed, or the directory fails."""
        try:
            return read_topic_id_or_none(self._disk, log.directory)
        except OSError as error:
            self._logs.fail_dir(directory_of(log), f"{log.name}: {error}")
            return None

    def write(self, folder: str, topic_id: bytes) -> None:
        """Becomes durable with the next `sync`: a start that finds the file torn has no id. OSError: the disk fails."""
        write_topic_id(self._disk, folder, topic_id)
        self._unsynced.setdefault(folder.rpartition("/")[0], []).append(folder)

    def sync(self) -> None:
        """Make the files that were written since durable; not in a directory whose earlier round has not ended."""
        for directory in self._logs.online_directories:
            if directory in self._being_synced or directory not in self._unsynced:
                continue
            folders = self._being_synced[directory] = self._unsynced.pop(directory)
            self._logs.run(directory, partial(_sync_topic_ids, self._disk, folders), partial(self._finish, directory))

    def _finish(self, directory: str) -> None:
        self._being_synced.pop(directory, None)

    def abandon_syncs(self) -> None:
        """The rounds that have not ended never will: a stop may have dropped them."""
        for directory, folders in self._being_synced.items():
            self._unsynced.setdefault(directory, []).extend(folders)
        self._being_synced.clear()
