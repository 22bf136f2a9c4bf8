"""The data source `ottla`: gives Spark its readers and writers. Decides nothing else."""

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ottla.spark.options import OptionError, Use, parse_read_options, parse_write_options

NAME = "ottla"


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("ottla")`, `readStream`, `write` and `writeStream` with a session."""
    spark.dataSource.register(OttlaDataSource)


class OttlaDataSource(DataSource):
    """Topics of any Kafka-compatible cluster, with the options and the schema of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from ottla.spark.schema import spark_schema

        return spark_schema(with_headers=self.options.get("includeHeaders", "false").strip().lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.batch_reader import OttlaBatchReader

        self._check_schema(schema)
        return OttlaBatchReader(parse_read_options(self.options, Use.BATCH))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from ottla.spark.stream_reader import OttlaStreamReader

        self._check_schema(schema)
        return OttlaStreamReader(parse_read_options(self.options, Use.STREAM))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.spark.writer import OttlaBatchWriter, plan_rows

        if overwrite:
            raise OptionError('a log only takes appends; use .mode("append")')
        options = parse_write_options(self.options)
        return OttlaBatchWriter(options, plan_rows(schema, options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from ottla.spark.writer import OttlaStreamWriter, plan_rows

        if overwrite:
            raise OptionError('a log only takes appends; use .outputMode("append") or "update"')
        options = parse_write_options(self.options)
        return OttlaStreamWriter(options, plan_rows(schema, options))

    def _check_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise OptionError(
                f"the schema of a topic is fixed and can't be set to {schema.simpleString()}; leave .schema() out, "
                "and cast or parse the columns"
            )
