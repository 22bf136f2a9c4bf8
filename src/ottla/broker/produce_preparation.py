"""What a produced batch needs before it can be appended and what takes too long for the event loop.

Only topics with a `compression.type` of their own or with compaction need it, and batches that don't say how recent
their records are; it runs on a thread.
"""

from ottla.core.errors import ErrorCode
from ottla.core.types import TimestampMs
from ottla.records.compression import codec_of_topic
from ottla.records.errors import CorruptBatch
from ottla.records.recompress import recompress
from ottla.records.validate import (
    ProduceFault,
    check_produced,
    check_records_deeply,
    mend_max_timestamp,
    needs_walk,
)
from ottla.storage.log_config import LogConfig

_ATTRIBUTES_POSITION = 22  # the low byte, which has the codec
_CODEC_MASK = 0x07
_AS_SENT = "producer"

# A compacted topic's records are walked one by one, and a walk holds the interpreter: small plain batches are walked
# where they are, by the log; what a compressed one may grow to is bounded.
_WALKED_INLINE_MAX_BYTES = 16 * 1024
_WALKED_MAX_BYTES = 32 * 1024 * 1024


def needs_preparation(records: memoryview | ProduceFault, config: LogConfig) -> bool:
    """Cheap: asked for every produced batch."""
    if isinstance(records, memoryview) and needs_walk(records, config.produce_limits):
        return True
    if config.compression_type == _AS_SENT and not config.compact:
        return False
    if not isinstance(records, memoryview) or len(records) <= _ATTRIBUTES_POSITION:
        return False
    if config.compact and (len(records) > _WALKED_INLINE_MAX_BYTES or _codec_of(records)):
        return True
    return _is_other_codec(records, config)


def prepare(
    records: memoryview | None, config: LogConfig | None, *, produce_version: int, now_ms: TimestampMs
) -> memoryview | ProduceFault | None:
    """Check a batch as it was sent, then bring it to the form that its topic wants.

    All batches of a request come here as soon as one of them has to: the log takes each for checked afterwards.
    """
    if records is None or config is None:
        return records
    limits = config.produce_limits
    header = check_produced(records, limits, produce_version=produce_version, now_ms=now_ms, is_prepared=True)
    if isinstance(header, ProduceFault):
        return header
    header = mend_max_timestamp(records, header, limits, now_ms=now_ms, max_bytes=_WALKED_MAX_BYTES)
    if isinstance(header, ProduceFault):
        return header
    codec = codec_of_topic(config.compression_type)
    keeps_codec = codec is None or codec == header.compression
    if config.compact or not keeps_codec:
        # Before a re-compression too: its new checksum would make records that don't add up look sound.
        fault = check_records_deeply(records, header, requires_keys=config.compact, max_bytes=_WALKED_MAX_BYTES)
        if fault is not None:
            return fault
    if codec is None or keeps_codec:
        return records
    try:
        return memoryview(recompress(records, codec=codec, level=config.level_of(codec)))
    except CorruptBatch as error:
        return ProduceFault(ErrorCode.INVALID_RECORD, str(error))


def _codec_of(records: memoryview) -> int:
    return records[_ATTRIBUTES_POSITION] & _CODEC_MASK


def _is_other_codec(records: memoryview, config: LogConfig) -> bool:
    codec = codec_of_topic(config.compression_type)
    return codec is not None and _codec_of(records) != codec
