"""Changing a batch's codec changes nothing else."""

import pytest

from ottla.records.compression import GZIP, NONE, ZSTD, compress
from ottla.records.errors import CorruptBatch
from ottla.records.header import read_header, write_crc
from ottla.records.read import read_batch
from ottla.records.recompress import recompress, uncompress
from tests.records.samples import CODECS, NOW_MS, builder_of


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_all_but_codec_size_and_checksum_is_kept(source, target):
    fields = {
        "base_offset": 90,
        "leader_epoch": 4,
        "producer_id": 8,
        "producer_epoch": 1,
        "base_sequence": 2**31 - 1,
        "is_transactional": True,
        "append_time_ms": NOW_MS + 3,
    }
    batch = builder_of().build(codec=source, **fields)
    changed = recompress(batch, codec=target)
    header, read = read_batch(changed)
    old_header, old_read = read_batch(batch)
    assert read == old_read
    assert header.compression == target
    assert header == old_header._replace(
        batch_length=header.batch_length, crc=header.crc, attributes=old_header.attributes & ~7 | target
    )
    assert uncompress(changed) == builder_of().build(codec=NONE, **fields)


def test_same_codec_is_a_copy():
    batch = builder_of().build(codec=GZIP)
    copy = recompress(batch, codec=GZIP)
    assert copy == batch
    assert copy is not batch


def test_level_is_used():
    batch = builder_of([(NOW_MS, None, bytes(range(256)) * 400 + b"tail" * 5000, [])]).build()
    assert len(recompress(batch, codec=ZSTD, level=19)) < len(recompress(batch, codec=ZSTD, level=-131072))


def test_bomb_is_corrupt_at_the_cap():
    batch = builder_of().build(codec=GZIP)
    batch[61:] = compress(GZIP, bytes(5_000_000))
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    write_crc(batch, 0, len(batch))
    assert read_header(batch).size_bytes == len(batch)
    with pytest.raises(CorruptBatch):
        uncompress(batch, max_bytes=1_000_000)


def test_unknown_codec_is_corrupt():
    batch = builder_of().build()
    batch[22] = 5
    write_crc(batch, 0, len(batch))
    with pytest.raises(CorruptBatch, match="codec"):
        uncompress(batch)


@pytest.mark.parametrize("target", [NONE, GZIP])
def test_broken_checksum_is_not_made_right(target):
    batch = builder_of().build(codec=NONE)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        recompress(batch, codec=target)


def test_second_batch_is_not_dropped():
    batch = builder_of().build()
    with pytest.raises(CorruptBatch, match="exactly one"):
        recompress(batch + batch, codec=GZIP)
