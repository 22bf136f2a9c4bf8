"""A source that applies a function in the worker that reads the records: Spark carries only the results.

`mapInArrow` over the plain source gives the same rows. But there Spark takes every record out of one worker, turns it
into a row of its own, and passes that to another worker, which costs more than most functions do.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from ottla.spark.batch_reader import OttlaBatchReader
from ottla.spark.options import ReadOptions, Use, parse_read_options
from ottla.spark.source import OttlaDataSource
from ottla.spark.stream_reader import OttlaStreamReader

# Over the Arrow batches of one task, in the columns of the plain source.
Mapping = Callable[[Iterable[Any]], Iterator[Any]]


def register_mapped(spark: SparkSession, name: str, function: Mapping, schema: StructType) -> None:
    """Register the source `name` with a session, replacing one of the same name.

    It takes the options of `ottla`. `function` is pickled to the workers; its batches have exactly this schema,
    including nullability.
    """

    # Defined here and not at the module's top, so that it is pickled to the workers whole, with its function.
    class MappedDataSource(OttlaDataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:
            return _MappedBatchReader(parse_read_options(self.options, Use.BATCH), function)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return _MappedStreamReader(parse_read_options(self.options, Use.STREAM), function)

    spark.dataSource.register(MappedDataSource)


class _MappedBatchReader(OttlaBatchReader):
    def __init__(self, options: ReadOptions, function: Mapping) -> None:
        super().__init__(options)
        self._function = function

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(self._function(super().read(partition)))


class _MappedStreamReader(OttlaStreamReader):
    def __init__(self, options: ReadOptions, function: Mapping) -> None:
        super().__init__(options)
        self._function = function

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_function": self._function}

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(self._function(super().read(partition)))
