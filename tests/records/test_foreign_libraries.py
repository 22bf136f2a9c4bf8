"""Judges: the record modules of kafka-python and aiokafka read what we build, and we read what they build."""

import aiokafka.record.default_records as aiokafka_records
import kafka.codec
import kafka.record.default_records as kafka_python_records
import pytest

from ottla.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.records.header import read_header, set_append_time
from ottla.records.read import read_batch
from ottla.records.recompress import recompress
from tests.records.samples import CODECS, NOW_MS, RECORDS, builder_of

# kafka-python takes its codecs from packages that may not be there; aiokafka has all of them.
KAFKA_PYTHON_HAS = {
    NONE: lambda: True,
    GZIP: kafka.codec.has_gzip,
    SNAPPY: kafka.codec.has_snappy,
    LZ4: kafka.codec.has_lz4,
    ZSTD: kafka.codec.has_zstd,
}
LIBRARIES = [
    pytest.param(
        library,
        codec,
        marks=pytest.mark.skipif(
            library is kafka_python_records and not KAFKA_PYTHON_HAS[codec](), reason="kafka-python lacks this codec"
        ),
        id=f"{library.__name__.split('.')[0]}-{codec}",
    )
    for library in (kafka_python_records, aiokafka_records)
    for codec in CODECS
]


def records_of(batch):
    return [(r.offset, r.timestamp, r.key, r.value, [(key, value) for key, value in r.headers]) for r in batch]


@pytest.mark.parametrize(("library", "codec"), LIBRARIES)
def test_they_read_what_we_build(library, codec):
    ours = builder_of().build(
        codec=codec, base_offset=500, producer_id=9, producer_epoch=1, base_sequence=77, is_transactional=True
    )
    theirs = library.DefaultRecordBatch(bytes(ours))
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.next_offset, theirs.compression_type) == (500, 504, codec)
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (9, 1, 77)
    assert theirs.is_transactional
    assert not theirs.is_control_batch
    assert (theirs.first_timestamp, theirs.max_timestamp) == (NOW_MS, NOW_MS + 3_000_000)
    assert records_of(theirs) == [
        (500 + index, timestamp_ms, key, value, headers)
        for index, (timestamp_ms, key, value, headers) in enumerate(RECORDS)
    ]


@pytest.mark.parametrize(("library", "codec"), LIBRARIES)
def test_we_read_what_they_build(library, codec):
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=4,
        producer_epoch=2,
        base_sequence=6,
        batch_size=10_000_000,
    )
    for index, (timestamp_ms, key, value, headers) in enumerate(RECORDS):
        builder.append(index, timestamp_ms, key, value, headers)
    header, read = read_batch(bytes(builder.build()))
    assert header.compression == codec
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 2, 6)
    assert [(r.timestamp_ms, r.key, r.value, list(r.headers)) for r in read] == RECORDS


@pytest.mark.parametrize(("library", "codec"), LIBRARIES)
def test_they_read_what_we_compressed_anew_and_stamped(library, codec):
    source = builder_of().build(codec=GZIP if codec != GZIP else ZSTD, base_offset=7)
    changed = recompress(source, codec=codec)
    set_append_time(changed, 0, header=read_header(changed), append_time_ms=NOW_MS + 1)
    theirs = library.DefaultRecordBatch(bytes(changed))
    assert theirs.validate_crc()
    assert theirs.timestamp_type == 1
    assert [r[3] for r in records_of(theirs)] == [value for _, _, value, _ in RECORDS]


def test_uncompressed_batches_are_the_same_bytes_as_theirs():
    builder = kafka_python_records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000_000,
    )
    for index, (timestamp_ms, key, value, headers) in enumerate(RECORDS):
        builder.append(index, timestamp_ms, key, value, headers)
    theirs = bytes(builder.build())
    leader_epoch = read_header(theirs).leader_epoch
    assert bytes(builder_of().build(leader_epoch=leader_epoch)) == theirs
