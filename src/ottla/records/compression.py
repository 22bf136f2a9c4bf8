"""The codecs of record batches by their ids in the header; decompression never exceeds the limit that it gets.

Bytes from a peer may claim any length: we allocate nothing because of such a claim alone.
"""

from collections.abc import Callable
from struct import Struct

import cramjam

from ottla.core.types import Buffer
from ottla.records.errors import CorruptBatch

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
LAST_CODEC = ZSTD

# By every name that a topic's `compression.type` may have, except `producer`.
CODEC_IDS = {"uncompressed": NONE, "none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

# The most that one batch may decompress to unless the caller sets a limit; clients' fetch limits are far below it.
DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024

DEFAULT_LEVELS = {GZIP: 6, LZ4: 9, ZSTD: 3}
LEVEL_RANGES = {GZIP: range(1, 10), LZ4: range(1, 18), ZSTD: range(-131072, 23)}
_GZIP_DEFAULT_LEVEL = -1  # Kafka's compression.gzip.level says "the default" this way

_BLOCK_LENGTH = Struct(">i")
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
# Snappy's densest element turns 3 bytes into 64; a block that claims more than this is corrupt.
_SNAPPY_RATIO_MAX = 32
_GZIP_RATIO_MAX = 1032  # deflate: two bits make 258 bytes
_LZ4_RATIO_MAX = 256  # each byte of a match's length adds 255 bytes
_ZSTD_RATIO_MAX = 32 * 1024  # a repeated byte: a block of four bytes makes 128 KiB

_FIRST_CAPACITY_BYTES = 64 * 1024
_CAPACITY_GROWTH = 8


_INTO: dict[int, Callable[[Buffer, bytearray], int]] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}


def codec_named(name: str) -> int:
    """The id of a codec; ValueError for an unknown name."""
    try:
        return CODEC_IDS[name]
    except KeyError:
        raise ValueError(f"no codec {name!r}; one of {', '.join(NAMES)}") from None


def codec_of_topic(compression_type: str) -> int | None:
    """The id for a topic's `compression.type`; None for `producer`: batches are stored as they were sent."""
    if compression_type == "producer":
        return None
    return codec_named(compression_type)


def check_level(codec: int, level: int) -> None:
    """ValueError for a level that the codec doesn't have."""
    if codec == GZIP and level == _GZIP_DEFAULT_LEVEL:
        return
    levels = LEVEL_RANGES.get(codec)
    if levels is None:
        raise ValueError(f"{NAMES[codec]} has no levels")
    if level not in levels:
        raise ValueError(f"{NAMES[codec]} level {level}, expected {levels[0]} to {levels[-1]}")


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """Compress `data` in the framing that Kafka's clients read; without a level, at Kafka's default one."""
    if codec == NONE:
        return data
    if codec == SNAPPY:
        return _compress_xerial(memoryview(data))
    if level is None or (codec == GZIP and level == _GZIP_DEFAULT_LEVEL):
        level = DEFAULT_LEVELS[codec]
    check_level(codec, level)
    if codec == GZIP:
        return memoryview(cramjam.gzip.compress(data, level=level))
    if codec == ZSTD:
        return memoryview(cramjam.zstd.compress(data, level=level))
    # Kafka's Java clients refuse LZ4 frames with linked blocks.
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return memoryview(compressor.finish())


def decompress(codec: int, data: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """Decompress; CorruptBatch when the result exceeds `max_bytes` or the codec can't read `data`."""
    if codec == NONE:
        if len(data) > max_bytes:
            raise CorruptBatch(f"{len(data)} bytes, at most {max_bytes} allowed")
        return data
    if codec == SNAPPY:
        return _decompress_snappy(memoryview(data), max_bytes)
    if codec == GZIP:
        return _decompress_bounded(cramjam.gzip.decompress_into, data, max_bytes, ratio_max=_GZIP_RATIO_MAX)
    if codec == LZ4:
        return _decompress_bounded(cramjam.lz4.decompress_into, data, max_bytes, ratio_max=_LZ4_RATIO_MAX)
    if codec == ZSTD:
        return _decompress_bounded(cramjam.zstd.decompress_into, data, max_bytes, ratio_max=_ZSTD_RATIO_MAX)
    raise CorruptBatch(f"unknown codec {codec}")


def decompress_into(codec: int, data: Buffer, space: bytearray) -> int | None:
    """Decompress into an existing buffer and return the size, or None where that does not work and `decompress` has to.

    New memory for each batch costs several times as much as lz4 and zstd themselves.
    """
    step = _INTO.get(codec)
    if step is None:
        return None
    try:
        return step(data, space)
    except cramjam.DecompressionError:
        return None  # too large for it, or broken


def _decompress_bounded(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, max_bytes: int, *, ratio_max: int
) -> bytearray:
    """Decompress into a buffer of fixed size, and into a larger one on the next try: no field says the size reliably.

    Common data fits at the first try. Any failure counts as "too small" until the limit is reached, since only the
    codecs' messages tell the two apart. For garbage that costs a few attempts, each with at most an eighth of the
    next one's memory, and none beyond what the codec could produce from so many bytes.
    """
    max_bytes = min(max_bytes, _FIRST_CAPACITY_BYTES + ratio_max * len(data))
    capacity = min(max_bytes, max(_FIRST_CAPACITY_BYTES, _CAPACITY_GROWTH * len(data)))
    while True:
        plain = bytearray(capacity)
        try:
            size_bytes = decompress_into(data, plain)
        except cramjam.DecompressionError as error:
            if capacity == max_bytes:
                raise CorruptBatch(f"not decompressed within {max_bytes} bytes: {error}") from None
            capacity = min(max_bytes, capacity * _CAPACITY_GROWTH)
            continue
        del plain[size_bytes:]
        return plain


def _compress_xerial(data: memoryview) -> bytes:
    parts: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    """The stream framing of Java's library, or a single raw block as some other clients send it."""
    blocks = _xerial_blocks(data) if data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC else [data]
    parts = []
    left_bytes = max_bytes
    for block in blocks:
        try:
            block_bytes = cramjam.snappy.decompress_raw_len(block)
            if block_bytes > left_bytes or block_bytes > _SNAPPY_RATIO_MAX * len(block):
                raise CorruptBatch(f"snappy block of {len(block)} bytes claims to hold {block_bytes}")
            plain = bytearray(block_bytes)
            if cramjam.snappy.decompress_raw_into(block, plain) != block_bytes:
                raise CorruptBatch(f"snappy block does not hold the {block_bytes} bytes that it claims")
        except cramjam.DecompressionError as error:
            raise CorruptBatch(f"snappy: {error}") from None
        left_bytes -= block_bytes
        parts.append(plain)
    return b"".join(parts)


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks = []
    position = len(_XERIAL_HEADER)
    end = len(data)
    if position > end:
        raise CorruptBatch(f"snappy stream of {end} bytes ends within its header")
    while position < end:
        if end - position < _BLOCK_LENGTH.size:
            raise CorruptBatch(f"snappy stream: {end - position} bytes after its last block")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= end - position:
            raise CorruptBatch(f"snappy block of {length} bytes, {end - position} left")
        blocks.append(data[position : position + length])
        position += length
    return blocks
