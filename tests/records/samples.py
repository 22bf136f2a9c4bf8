"""Records and strategies that several tests of this room share."""

from hypothesis import strategies as st

from ottla.records.build import BatchBuilder
from ottla.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD

NOW_MS = 1_700_000_000_000
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)

RECORDS: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (NOW_MS, b"key", b"value", []),
    (NOW_MS + 5, None, b"x" * 10_000, [("trace", b"abc"), ("empty", b""), ("missing", None), ("ünicode", b"\xff")]),
    (NOW_MS - 70_000, b"", b"", []),
    (NOW_MS + 3_000_000, b"k" * 300, None, []),
]

optional_bytes = st.none() | st.binary(max_size=200)
record_headers = st.lists(st.tuples(st.text(max_size=20), optional_bytes), max_size=4)
records = st.lists(
    st.tuples(st.integers(min_value=0, max_value=2**53), optional_bytes, optional_bytes, record_headers),
    min_size=1,
    max_size=20,
)


def builder_of(sample=RECORDS) -> BatchBuilder:
    builder = BatchBuilder()
    for timestamp_ms, key, value, headers in sample:
        builder.append(timestamp_ms, key, value, headers)
    return builder
