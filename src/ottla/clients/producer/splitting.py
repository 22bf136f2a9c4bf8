"""A batch that the broker found too large, as smaller ones: the same records, read back from their encoded form."""

from ottla.clients.producer.batch import ProducerBatch
from ottla.records.appender import FULL, BatchAppender
from ottla.records.header import HEADER_BYTES
from ottla.records.read import read_batch


def split(batch: ProducerBatch) -> list[tuple[int, ProducerBatch]]:
    """In two halves by size, with the index of each part's first record; a half that is still too large comes again.

    The broker doesn't say what it would take, and its limit is for the compressed batch: halves are a fair guess.
    """
    limit_bytes = max(batch.appender.size_bytes // 2, HEADER_BYTES + 1)
    appenders: list[BatchAppender] = []
    _, records = read_batch(batch.appender.build(), check_crc=False)
    for record in records:
        row = (record.timestamp_ms, record.key, record.value, list(record.headers))
        if not appenders or appenders[-1].append(*row) == FULL:
            appenders.append(BatchAppender(limit_bytes))
            appenders[-1].append(*row)
    parts = []
    first_index = 0
    for appender in appenders:
        part = ProducerBatch(
            batch.queue,
            batch.lock,
            created_ms=batch.created_ms,
            reserved_bytes=0,
            is_transactional=batch.is_transactional,
            appender=appender,
        )
        part.order = batch.order + first_index
        parts.append((first_index, part))
        first_index += appender.record_count
    # The room of the whole is given back with its last part.
    parts[-1][1].reserved_bytes = batch.reserved_bytes
    batch.reserved_bytes = 0
    return parts
