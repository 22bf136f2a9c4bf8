"""What becomes of a job's records in Spark's workers before the job sees them: where they are read, if the source can.

The rows are the same either way. Knows nothing of events.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What is looked at of the columns of Spark's Kafka source.
SOURCE_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")

ArrowFunction: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Preparation(NamedTuple):
    """A function over the batches of one task, which is pickled to the workers, and the schema of what it gives."""

    function: ArrowFunction
    schema: StructType


def prepared(frame: "DataFrame", preparation: Preparation) -> "DataFrame":
    """A batch of the source, or one that was prepared where it was read, as one that is prepared."""
    if not is_raw(frame):
        return frame
    return frame.select(*SOURCE_COLUMNS).mapInArrow(preparation.function, preparation.schema)


def is_raw(frame: "DataFrame") -> bool:
    """Whether these are records as they lie on the topics."""
    return set(SOURCE_COLUMNS) <= set(frame.columns)
