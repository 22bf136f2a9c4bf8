"""`partition.metadata` in a partition's folder: the id of the topic that the folder belongs to.

It tells a partition from one of a topic that had the same name and was deleted.
"""

from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable

from ottla.core.disk import Disk
from ottla.storage.checkpoints import MalformedCheckpoint
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
    """The id in a partition's folder; None when it says nothing that can be believed."""
    try:
        return read_topic_id(disk, path) if disk.exists(f"{path}/{PARTITION_METADATA_FILE}") else None
    except MalformedCheckpoint:
        return None


def write_topic_id(disk: Disk, directory: str, topic_id: bytes) -> None:
    """Not durable before `sync_topic_ids`, so that a topic of a thousand partitions is made in no time."""
    file = disk.open_append(f"{directory}/{PARTITION_METADATA_FILE}")
    try:
        file.truncate(0)
        file.append(f"{_VERSION_LINE}\n{_TOPIC_ID_FIELD}{topic_id_text(topic_id)}".encode())
    finally:
        file.close()


def sync_topic_ids(disk: Disk, directories: Iterable[str]) -> None:
    """Make the files in these folders durable; a folder may be gone again."""
    for directory in directories:
        path = f"{directory}/{PARTITION_METADATA_FILE}"
        if disk.exists(path):
            file = disk.open_append(path)
            try:
                file.fsync()
            finally:
                file.close()
            disk.fsync_dir(directory)


class UnsyncedTopicIds:
    """Folders with a new file, by log directory, until it is durable. Owned by the log manager."""

    __slots__ = ("_being_synced", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, list[str]] = {}
        self._being_synced: dict[str, list[str]] = {}

    def add(self, path: str) -> None:
        self._waiting.setdefault(path.rpartition("/")[0], []).append(path)

    def begin(self, directory: str) -> list[str]:
        """What is to be synced there now; nothing while an earlier round has not ended."""
        if directory in self._being_synced or directory not in self._waiting:
            return []
        folders = self._being_synced[directory] = self._waiting.pop(directory)
        return folders

    def finish(self, directory: str) -> None:
        self._being_synced.pop(directory, None)

    def give_back(self) -> None:
        """The rounds that have not ended never will: a stop may have dropped them."""
        for directory, folders in self._being_synced.items():
            self._waiting.setdefault(directory, []).extend(folders)
        self._being_synced.clear()
