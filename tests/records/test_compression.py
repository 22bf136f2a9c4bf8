"""The codecs: round trips, framings that foreign clients expect and send, bombs and garbage."""

import contextlib
import gzip
import subprocess
import sys
import tracemalloc

import cramjam
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ottla.records.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    check_level,
    codec_named,
    codec_of_topic,
    compress,
    decompress,
)
from ottla.records.errors import CorruptBatch
from tests.records.samples import CODECS

XERIAL_HEADER_BYTES = 16
COMPRESSING = (GZIP, SNAPPY, LZ4, ZSTD)
TEXT = b"a commit log is a sequence of records, " * 5000


def zeros_compressed(codec: int, size: int) -> bytes:
    return bytes(compress(codec, bytes(size)))


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=5000), repeat=st.integers(1, 40), codec=st.sampled_from(CODECS))
def test_round_trip(data, repeat, codec):
    plain = data * repeat
    assert bytes(decompress(codec, compress(codec, plain), len(plain))) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_views_of_writable_memory_are_taken(codec):
    view = memoryview(bytearray(b"??" + TEXT))[2:]
    packed = memoryview(bytearray(b"??" + bytes(compress(codec, view))))[2:]
    assert bytes(decompress(codec, packed, len(TEXT))) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_limit_is_exact(codec):
    packed = compress(codec, TEXT)
    assert bytes(decompress(codec, packed, len(TEXT))) == TEXT
    with pytest.raises(CorruptBatch):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_data_that_grows_a_thousandfold_is_read_within_the_limit(codec):
    packed = zeros_compressed(codec, 3_000_000)
    assert bytes(decompress(codec, packed, 4_000_000)) == bytes(3_000_000)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_bomb_is_refused_at_the_limit(codec):
    with pytest.raises(CorruptBatch):
        decompress(codec, zeros_compressed(codec, 50_000_000), 1_000_000)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_bomb_of_a_gigabyte_is_refused_in_a_process_of_150_megabytes(codec, tmp_path):
    """Concatenated frames, which the readers take as one stream. Any larger allocation fails, and so does the test."""
    one = zeros_compressed(codec, 32 * 1024 * 1024)
    header_bytes = XERIAL_HEADER_BYTES if codec == SNAPPY else 0
    bomb = tmp_path / "bomb"
    bomb.write_bytes(one + one[header_bytes:] * 31)
    script = (
        "import resource, sys\n"
        "from ottla.records.compression import decompress\n"
        "from ottla.records.errors import CorruptBatch\n"
        "data = open(sys.argv[1], 'rb').read()\n"
        "limit_bytes = (150 << 20) + len(data)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))\n"
        "try:\n"
        "    decompress(int(sys.argv[2]), data, 16 << 20)\n"
        "except CorruptBatch:\n"
        "    print('refused')\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(bomb), str(codec)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "refused\n", "")


def test_snappy_block_that_lies_about_its_length_allocates_nothing():
    lie = b"\xff\xff\xff\xff\x0f" + b"\x00" * 10  # 4 GB in 10 bytes
    with pytest.raises(CorruptBatch, match="4294967295"):
        decompress(SNAPPY, lie, 2**40)


@pytest.mark.parametrize("codec", COMPRESSING)
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300))
def test_garbage_raises_only_corrupt_batch(codec, data):
    with contextlib.suppress(CorruptBatch):
        decompress(codec, data, 100_000)


@pytest.mark.parametrize("codec", COMPRESSING)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_cut_or_changed_data_raises_only_corrupt_batch(codec, data):
    packed = bytearray(compress(codec, TEXT[:20_000]))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CorruptBatch):
        decompress(codec, packed, 100_000)
    assume(codec != SNAPPY or at != XERIAL_HEADER_BYTES)  # a stream of no blocks is whole
    with pytest.raises(CorruptBatch):
        decompress(codec, bytes(compress(codec, TEXT[:20_000]))[: max(1, at)], 100_000)


def test_unknown_codec_is_corrupt():
    with pytest.raises(CorruptBatch):
        decompress(5, b"", 10)


def test_snappy_is_written_in_the_framing_of_java_and_read_with_or_without_it():
    packed = bytes(compress(SNAPPY, TEXT))
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert bytes(decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT))) == TEXT


@pytest.mark.parametrize("level", [None, 1, 9, 17])
def test_lz4_frames_have_independent_blocks(level):
    """Kafka's Java reader refuses linked ones."""
    packed = bytes(compress(LZ4, TEXT, level))
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0x20
    assert bytes(decompress(LZ4, packed, len(TEXT))) == TEXT


def test_lz4_frames_with_linked_blocks_and_checksums_are_read():
    packed = bytes(cramjam.lz4.compress(TEXT))
    assert bytes(decompress(LZ4, packed, len(TEXT))) == TEXT


def test_gzip_is_what_the_standard_library_reads_and_writes():
    assert gzip.decompress(bytes(compress(GZIP, TEXT))) == TEXT
    assert bytes(decompress(GZIP, gzip.compress(TEXT), len(TEXT))) == TEXT


@pytest.mark.parametrize(("codec", "levels"), [(GZIP, (-1, 1, 9)), (LZ4, (1, 17)), (ZSTD, (-131072, -5, 1, 22))])
def test_every_level_round_trips(codec, levels):
    for level in levels:
        check_level(codec, level)
        assert bytes(decompress(codec, compress(codec, TEXT, level), len(TEXT))) == TEXT


@pytest.mark.parametrize(
    ("codec", "level"), [(GZIP, 0), (GZIP, 10), (LZ4, 0), (LZ4, 18), (ZSTD, 23), (ZSTD, -131073), (SNAPPY, 1)]
)
def test_levels_out_of_range_are_refused(codec, level):
    with pytest.raises(ValueError, match="level"):
        check_level(codec, level)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_garbage_costs_no_more_memory_than_the_codec_could_make_of_it(codec):
    cut = bytes(compress(codec, TEXT))[:60]
    tracemalloc.start()
    for garbage in (b"", b"\x00", b"\xff" * 60, cut):
        with pytest.raises(CorruptBatch):
            decompress(codec, garbage)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 8 * 1024 * 1024


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_the_most_that_a_codec_packs_is_unpacked(codec):
    zeros = bytes(100_000_000)
    assert decompress(codec, compress(codec, zeros)) == zeros


def test_names():
    assert [codec_named(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(CODECS)
    assert codec_of_topic("producer") is None
    assert codec_of_topic("uncompressed") == NONE
    assert codec_of_topic("zstd") == ZSTD
    with pytest.raises(ValueError, match="brotli"):
        codec_of_topic("brotli")
