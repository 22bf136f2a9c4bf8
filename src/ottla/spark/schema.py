"""The columns of the source, exactly those of Spark's own Kafka source, in Spark's and in Arrow's types.

Our own columns declare which of them are never null; Spark's source doesn't, and Spark wants exactly the same schema.
"""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_FIELDS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)

_ARROW_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_ARROW_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
_ARROW_SCHEMA_WITH_HEADERS: Final = _ARROW_SCHEMA.append(pa.field("headers", _ARROW_HEADERS))


def spark_schema(*, with_headers: bool) -> StructType:
    fields = [*_FIELDS, StructField("headers", _HEADERS)] if with_headers else list(_FIELDS)
    return StructType(fields)


def to_spark(batch: Any) -> Any:
    """A batch of ours in the schema that Spark expects; no column is copied."""
    columns = batch.columns
    if len(columns) == len(_ARROW_SCHEMA):
        return pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)
    headers = columns[-1].cast(_ARROW_HEADERS)
    return pa.RecordBatch.from_arrays([*columns[:-1], headers], schema=_ARROW_SCHEMA_WITH_HEADERS)
