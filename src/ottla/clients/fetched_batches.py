"""The batches of a fetched buffer: which are wanted, where to read next, what was aborted.

Pure: no connection and no positions. It reads only headers to find the next position, so the next request can be sent
before any record is decoded.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.clients.errors import ClientError
from ottla.core.types import Buffer, Offset, TopicPartition
from ottla.records.errors import CorruptBatch
from ottla.records.header import BatchHeader, iter_headers
from ottla.records.read import read_batch, read_end_transaction_marker


class UnreadableRecords(ClientError):
    """A broker sent bytes that are not a record batch, or a corrupt one."""


class WantedBatches(NamedTuple):
    """The batches of an answer with records for the user, undecoded, and the next offset to fetch."""

    topic_partition: TopicPartition
    data: Buffer
    starts: list[int]
    from_offset: Offset
    next_offset: Offset
    size_bytes: int


def find_wanted(
    topic_partition: TopicPartition, data: Buffer, position: Offset, aborted: Sequence[tuple[int, Offset]] | None
) -> WantedBatches:
    """The batches from `position` on. `aborted`: (producer id, first offset) of transactions to skip."""
    starts = []
    size_bytes = 0
    next_offset = position
    try:
        batches = iter_headers(data, allow_partial_tail=True)
        for start, header in _without_aborted(data, batches, aborted) if aborted else batches:
            size_bytes += header.size_bytes
            if header.next_offset <= position:
                continue
            next_offset = header.next_offset
            if not header.is_control and not header.attributes & _ABORTED:
                starts.append(start)
    except CorruptBatch as damage:
        raise UnreadableRecords(f"{topic_partition}: after offset {next_offset}: {damage}") from damage
    return WantedBatches(topic_partition, data, starts, position, next_offset, size_bytes)


_ABORTED = 1 << 15  # a bit that no batch has: only `_without_aborted` sets it, on headers in memory


def _without_aborted(
    data: Buffer, batches: Iterator[tuple[int, BatchHeader]], aborted: Sequence[tuple[int, Offset]]
) -> Iterator[tuple[int, BatchHeader]]:
    """The same batches, with those of aborted transactions marked.

    These are a producer's batches from the first offset that the broker named up to the marker that ends the
    transaction.
    """
    upcoming = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    for start, header in batches:
        while upcoming and upcoming[-1][1] <= header.last_offset:
            aborting.add(upcoming.pop()[0])
        if header.is_control:
            _, records = read_batch(data, start)
            marker = read_end_transaction_marker(records[0]) if records else None
            if marker is not None and not marker.is_commit:
                aborting.discard(header.producer_id)
            yield start, header
        elif header.is_transactional and header.producer_id in aborting:
            yield start, header._replace(attributes=header.attributes | _ABORTED)
        else:
            yield start, header
