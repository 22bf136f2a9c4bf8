"""The function that Spark's workers apply to a job's records before the job sees them.

Our own source applies it where it reads, other sources in a step of its own; the rows are the same. Knows nothing of
events.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The columns of Spark's Kafka source that jobs use.
SOURCE_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")

ArrowFunction: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Preparation(NamedTuple):
    """A function over the batches of one task, pickled to the workers, and the schema of its results."""

    function: ArrowFunction
    schema: StructType


def prepared(frame: "DataFrame", preparation: Preparation) -> "DataFrame":
    """Applies the preparation, unless the source has done so."""
    if not is_raw(frame):
        return frame
    return frame.select(*SOURCE_COLUMNS).mapInArrow(preparation.function, preparation.schema)


def is_raw(frame: "DataFrame") -> bool:
    """Whether these are records as they are on the topics."""
    return set(SOURCE_COLUMNS) <= set(frame.columns)
