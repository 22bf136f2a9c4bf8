"""Bad records to `<topic>.dlq`: key and value as they were, with headers that say where they came from and why.

Delivery is at least once: a batch that runs again sends its dead letters again, and the origin in the headers shows
repeats. The first dead letter creates its topic. `redrive` sends dead letters back.
"""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from ottla import __version__
from ottla.clients.admin import Admin
from ottla.pipeline.events.event_decoding import CONFLICT
from ottla.pipeline.stores.port import Origin
from ottla.pipeline.topic_creation import create_missing_topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SUFFIX: Final = ".dlq"

# Headers of a dead letter, all of them UTF-8 text.
ORIGIN_TOPIC: Final = "origin_topic"
ORIGIN_PARTITION: Final = "origin_partition"
ORIGIN_OFFSET: Final = "origin_offset"
ORIGIN_TIMESTAMP: Final = "origin_timestamp_ms"
ERROR_CLASS: Final = "error_class"
ERROR_REASON: Final = "error_reason"
PIPELINE_VERSION: Final = "pipeline_version"
# Header -> column of PARSED.
_FROM_COLUMNS: Final = {
    ORIGIN_TOPIC: "topic",
    ORIGIN_PARTITION: "partition",
    ORIGIN_OFFSET: "offset",
    ORIGIN_TIMESTAMP: "timestamp_ms",
    ERROR_CLASS: "error_class",
    ERROR_REASON: "error_reason",
}
_CONFLICT_REASON: Final = "event_id is known with another body"


def dead_letter_topic(topic: str) -> str:
    return topic + SUFFIX


def dead_letters(dead: "DataFrame") -> "DataFrame":
    """Dead rows of PARSED as records to write: topic, key, value, headers."""
    headers = [_header(name, sf.col(column).cast("string")) for name, column in _FROM_COLUMNS.items()]
    headers.append(_header(PIPELINE_VERSION, sf.lit(__version__)))
    return dead.select(
        sf.concat("topic", sf.lit(SUFFIX)).alias("topic"), "key", "value", sf.array(*headers).alias("headers")
    )


def conflicting_rows(frame: "DataFrame", conflicts: Sequence[Origin]) -> "DataFrame":
    """The source's rows at these origins, as dead rows of the class `conflict`."""
    schema = "topic string, partition int, offset long"
    wanted = sf.broadcast(frame.sparkSession.createDataFrame([tuple(origin) for origin in conflicts], schema))
    return frame.join(wanted, ["topic", "partition", "offset"]).select(
        "topic",
        "partition",
        "offset",
        sf.unix_millis("timestamp").alias("timestamp_ms"),
        sf.lit(CONFLICT).alias("error_class"),
        sf.lit(_CONFLICT_REASON).alias("error_reason"),
        "key",
        "value",
    )


def records_around(
    spark: "SparkSession", bootstrap: str, origins: Sequence[Origin], *, fails_on_data_loss: bool
) -> "DataFrame":
    """Reads each partition again, from the first to the last of these origins in it."""
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for topic, partition, offset in sorted(origins):
        starts.setdefault(topic, {}).setdefault(str(partition), offset)
        ends.setdefault(topic, {})[str(partition)] = offset + 1
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "assign": json.dumps({topic: sorted(map(int, partitions)) for topic, partitions in starts.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "failOnDataLoss": "true" if fails_on_data_loss else "false",
    }
    return spark.read.format("ottla").options(**options).load()


class DeadLetterSink:
    """Writes dead letters and creates their topics. Owned by a job."""

    def __init__(self, bootstrap: str, *, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._created: set[str] = set()

    def send(self, dead: "DataFrame", topics: Iterable[str]) -> None:
        """Returns when the cluster has them all. `topics` are the topics of the rows."""
        missing = {dead_letter_topic(topic) for topic in topics} - self._created
        if missing:
            with Admin(bootstrap_servers=self._bootstrap) as admin:
                create_missing_topics(admin, sorted(missing), partitions=self._partitions)
            self._created |= missing
        records = dead_letters(dead)
        records.write.format("ottla").option("kafka.bootstrap.servers", self._bootstrap).mode("append").save()


def _header(name: str, value: "Column") -> "Column":
    return sf.struct(sf.lit(name).alias("key"), value.cast("binary").alias("value"))
