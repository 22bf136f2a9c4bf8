"""What a produced batch needs before it can be appended, and what of it takes too long for the event loop.

That is a walk through the records of compressed and of large batches, and the re-compression for topics with a
`compression.type` of their own. It runs on a thread, but for compressed batches that stay small: there the way to the
thread and back would cost ten times the work.
"""

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from ottla.core.errors import ErrorCode
from ottla.core.types import TimestampMs
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, codec_of_topic
from ottla.records.errors import CorruptBatch
from ottla.records.header import BatchHeader
from ottla.records.kernel import IS_COMPILED
from ottla.records.recompress import recompress
from ottla.records.validate import ProduceFault, check_produced
from ottla.records.walk import DECOMPRESSED_INLINE_MAX_BYTES, check_records, has_wrong_maximum
from ottla.storage.log_config import LogConfig

_ATTRIBUTES_POSITION = 22  # the low byte, which has the codec
CODEC_MASK = 0x07

# Plain batches up to this size are walked where they are, by the log. Without the kernel a walk of 16 KB takes longer
# than one of 1 MB with it, which is under a millisecond for the smallest records.
WALKED_INLINE_MAX_BYTES = 1024 * 1024 if IS_COMPILED else 16 * 1024

# A request with few and small compressed batches is prepared at once, as long as each stays small decompressed, too:
# what a few KB grow to is the sender's choice.
COMPRESSED_INLINE_MAX_BYTES = 32 * 1024
_COMPRESSED_INLINE_MAX_BATCHES = 8

# Up to this size a batch is walked on the event loop whatever its codec.
INLINE_MAX_BYTES = min(WALKED_INLINE_MAX_BYTES, COMPRESSED_INLINE_MAX_BYTES)

# What a compressed batch may grow to beside others; larger ones are decompressed one at a time.
_WALKED_MAX_BYTES = 32 * 1024 * 1024
_alone = Lock()


class PreparedBatch(NamedTuple):
    """A batch in the form that its topic wants, or what is wrong with it; None where the request had none.

    `config` is what it was prepared by, and holds only as long as it is the partition's; None: it was not checked.
    """

    records: memoryview | ProduceFault | None
    config: LogConfig | None


def needs_preparation(records: memoryview, config: LogConfig) -> bool:
    """Cheap: called for every produced batch."""
    if len(records) <= _ATTRIBUTES_POSITION:
        return False
    codec = records[_ATTRIBUTES_POSITION] & CODEC_MASK
    if (codec or len(records) > WALKED_INLINE_MAX_BYTES) and (
        config.walks_records or config.compact or has_wrong_maximum(records)
    ):
        return True
    wanted = codec_of_topic(config.compression_type)
    return wanted is not None and wanted != codec


def is_for_a_thread(records: memoryview) -> bool:
    """Whether a batch of more than `INLINE_MAX_BYTES` takes too long to walk for the event loop."""
    is_compressed = records[_ATTRIBUTES_POSITION] & CODEC_MASK
    return len(records) > (COMPRESSED_INLINE_MAX_BYTES if is_compressed else WALKED_INLINE_MAX_BYTES)


def prepare(
    records: memoryview | None, config: LogConfig | None, *, produce_version: int, now_ms: TimestampMs
) -> PreparedBatch:
    """Check a batch as it was sent, then bring it to the form that its topic wants; `records` can be prepared again.

    All batches of a request come here as soon as one of them has to: the log takes each for checked afterwards.
    """
    if records is None or config is None:
        return PreparedBatch(records, config)
    return PreparedBatch(_checked_and_formed(records, config, produce_version, now_ms), config)


def prepare_at_once(
    batches: Sequence[tuple[memoryview | None, LogConfig | None]], *, produce_version: int, now_ms: TimestampMs
) -> list[PreparedBatch] | None:
    """What `prepare` makes of all batches of a request; None where a thread has to do it."""
    sizes = [len(records) for records, _ in batches if records is not None]
    if sum(sizes) > COMPRESSED_INLINE_MAX_BYTES or len(sizes) > _COMPRESSED_INLINE_MAX_BATCHES:
        return None
    prepared: list[PreparedBatch] = []
    for records, config in batches:
        if records is None or config is None:
            prepared.append(PreparedBatch(records, config))
            continue
        limits = config.produce_limits
        header = check_produced(records, limits, produce_version=produce_version, now_ms=now_ms)
        if isinstance(header, ProduceFault):
            prepared.append(PreparedBatch(header, config))
            continue
        codec = codec_of_topic(config.compression_type)
        if codec is not None and codec != header.compression:
            return None
        walked = check_records(
            records,
            header,
            limits,
            requires_keys=config.compact,
            now_ms=now_ms,
            max_bytes=DECOMPRESSED_INLINE_MAX_BYTES,
        )
        if isinstance(walked, ProduceFault):
            return None
        prepared.append(PreparedBatch(records, config))
    return prepared


def _checked_and_formed(
    records: memoryview, config: LogConfig, produce_version: int, now_ms: TimestampMs
) -> memoryview | ProduceFault:
    header = check_produced(records, config.produce_limits, produce_version=produce_version, now_ms=now_ms)
    if isinstance(header, ProduceFault):
        return header
    codec = codec_of_topic(config.compression_type)
    keeps_codec = codec is None or codec == header.compression
    if config.walks_records or config.compact or not keeps_codec or has_wrong_maximum(records):
        # Before a re-compression too: its new checksum would make records that don't add up look sound.
        walked = _walk(records, header, config, now_ms)
        if isinstance(walked, ProduceFault):
            return walked
    if codec is None or keeps_codec:
        return records
    try:
        return memoryview(recompress(records, codec=codec, level=config.level_of(codec)))
    except CorruptBatch as error:
        return ProduceFault(ErrorCode.INVALID_RECORD, str(error))


def _walk(
    records: memoryview, header: BatchHeader, config: LogConfig, now_ms: TimestampMs
) -> BatchHeader | ProduceFault:
    """A batch that can't be decompressed in the space that all may have is tried in more, one at a time."""

    def walk_within(max_bytes: int) -> BatchHeader | ProduceFault:
        return check_records(
            records,
            header,
            config.produce_limits,
            requires_keys=config.compact,
            now_ms=now_ms,
            max_bytes=max_bytes,
        )

    walked = walk_within(_WALKED_MAX_BYTES)
    if not isinstance(walked, ProduceFault) or not header.compression or walked.record_indexes:
        return walked
    if walked.error_code is not ErrorCode.INVALID_RECORD:
        return walked  # it was read to its end
    with _alone:
        return walk_within(DECOMPRESSED_BYTES_MAX)
