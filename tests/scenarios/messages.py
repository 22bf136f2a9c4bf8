"""What every scenario sends, and a look into the files at how it was stored."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple, Protocol

from ottla.records.compression import NAMES
from ottla.records.header import BatchHeader, iter_headers

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SOME_TIME_MS = 1_700_000_000_000


class Files(Protocol):
    """A broker whose files lie on this machine; Apache Kafka's are named and written in the same way."""

    def partition_dir(self, topic: str, partition: int) -> Path: ...


class Message(NamedTuple):
    """One record as its sender and its reader see it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = SOME_TIME_MS


def all_kinds(count: int = 60) -> list[Message]:
    """Keys, values and headers that are there, empty and missing, in turns; sizes from nothing to some kilobytes.

    Never both key and value missing: not every client sends that.
    """
    messages = []
    for number in range(count):
        text = b"value %d " % number * (number * 30 % 900 + 1)
        value = (text, None, b"", bytes([number % 251]) * 50)[number % 4]
        messages.append(
            Message(
                key=(None if value is not None else b"k", b"", b"key-%d" % (number % 7))[number % 3],
                value=value,
                headers=((), (("trace", b"%d" % number), ("trace", b"again")), (("empty", b""),))[number % 3],
                timestamp_ms=SOME_TIME_MS + number * 1000,
            )
        )
    return messages


def numbered(count: int, start: int = 0) -> list[Message]:
    """Small ones that can be told apart."""
    return [Message(None, b"%d" % number) for number in range(start, start + count)]


def stored_headers(files: Files, topic: str, partition: int = 0) -> list[BatchHeader]:
    """The batches as they lie in the partition's segments."""
    headers: list[BatchHeader] = []
    for path in sorted(files.partition_dir(topic, partition).glob("*.log")):
        headers += [header for _, header in iter_headers(path.read_bytes())]
    return headers


def stored_codecs(files: Files, topic: str, partition: int = 0) -> dict[str, int]:
    """How many batches are stored under each codec."""
    return Counter(NAMES[header.compression] for header in stored_headers(files, topic, partition))
