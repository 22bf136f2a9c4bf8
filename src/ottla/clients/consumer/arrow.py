"""Fetched batches to Arrow, for `poll_arrow`: the only part of the consumer that needs pyarrow, imported on use."""

from typing import TYPE_CHECKING

from ottla.clients.fetched_batches import UnreadableRecords, WantedBatches
from ottla.core.extras import needs_extra
from ottla.records.errors import CorruptBatch

with needs_extra("poll_arrow", "columns"):
    from ottla.columns.decoding import ColumnDecoder

if TYPE_CHECKING:
    import pyarrow


def decode_arrow(wanted: WantedBatches | None, *, with_headers: bool, check_crcs: bool) -> "pyarrow.RecordBatch | None":
    """All records that an answer has for one partition; None if there are none."""
    if wanted is None:
        return None
    topic, partition = wanted.topic_partition
    decoder = ColumnDecoder(with_headers=with_headers)
    try:
        decoder.add_all(
            wanted.data,
            wanted.starts,
            topic=topic,
            partition=partition,
            from_offset=wanted.from_offset,
            check_crc=check_crcs,
        )
    except CorruptBatch as damage:
        raise UnreadableRecords(f"{wanted.topic_partition}: from offset {wanted.from_offset} on: {damage}") from damage
    return decoder.finish() if decoder.count else None
