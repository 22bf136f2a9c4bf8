"""The columns of a topic: those of Spark's Kafka source, so that a table means the same here and there."""

from typing import Final

import pyarrow as pa

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
)
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")

RECORD_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP_TYPE, nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
    ]
)
RECORD_SCHEMA_WITH_HEADERS: Final = RECORD_SCHEMA.append(pa.field("headers", HEADERS_TYPE))
