"""Compresses a batch again with another codec (a topic's `compression.type`). Needs much CPU: run it on a thread.

The encoded records don't change, so offsets, timestamps, headers and the producer's fields don't change either.
"""

from ottla.core.types import Buffer
from ottla.records.build import assemble_batch
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, NONE, compress
from ottla.records.errors import CorruptBatch
from ottla.records.header import COMPRESSION_MASK, crc_of
from ottla.records.read import plain_records, whole_batch_header


def recompress(
    batch: Buffer, *, codec: int, level: int | None = None, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytearray:
    """The batch in `codec`; CorruptBatch when its records can't be decompressed within `max_bytes`.

    The result gets a new checksum, which must not hide damage, and no byte may get lost: so `batch` has to be exactly
    one batch with a correct checksum.
    """
    header = whole_batch_header(batch)
    if header.size_bytes != len(batch):
        raise CorruptBatch(f"{len(batch) - header.size_bytes} bytes after the batch; exactly one batch is expected")
    if crc_of(batch, 0, header.size_bytes) != header.crc:
        raise CorruptBatch(f"batch of {header.size_bytes} bytes: its checksum is not {header.crc:#010x}")
    if header.compression == codec:
        return bytearray(batch)
    records = plain_records(batch, 0, header=header, max_bytes=max_bytes)
    return assemble_batch(
        compress(codec, records, level),
        record_count=header.record_count,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
        attributes=header.attributes & ~COMPRESSION_MASK | codec,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def uncompress(batch: Buffer, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytearray:
    """The batch with uncompressed records."""
    return recompress(batch, codec=NONE, max_bytes=max_bytes)
