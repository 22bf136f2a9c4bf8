"""The columns of the DataFrames between the steps of a job.

`parsing` takes the columns of Kafka's source (`key` … `timestampType`) and returns PARSED, a row for each record. A bad
record has its `error_class` and `error_reason` set and its envelope empty.
"""

from typing import Final

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

_STRING: Final = StringType()
_LONG: Final = LongType()

# Where a record came from. `key` and `value` are set for bad records only, which become dead letters.
ORIGIN: Final = (
    StructField("topic", _STRING, nullable=False),
    StructField("partition", IntegerType(), nullable=False),
    StructField("offset", _LONG, nullable=False),
    StructField("timestamp_ms", _LONG, nullable=False),
)
DEATH: Final = (
    StructField("error_class", _STRING),
    StructField("error_reason", _STRING),
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
)
ENVELOPE: Final = (
    StructField("event_id", _STRING),
    StructField("event_type", _STRING),
    StructField("schema_version", _LONG),
    StructField("event_time", _LONG),
    StructField("account_id", _STRING),
    StructField("device_id", _STRING),
    StructField("fingerprint", _STRING),
    StructField("ip", _STRING),
    StructField("app_version", _STRING),
)
# The union over all topics; null where a topic has no such field. Phone numbers are raw here, as rules need them; only
# their hashes may be stored.
PAYLOAD: Final = tuple(
    StructField(name, _LONG if name in ("credit", "duration_ms", "step", "steps_total", "reward") else _STRING)
    for name in (
        "credit",
        "reason",
        "task_id",
        "ad_id",
        "slot",
        "duration_ms",
        "package",
        "phone",
        "phone_hash",
        "login_kind",
        "outcome",
        "inviter_id",
        "invitee_id",
        "invitee_phone",
        "invitee_phone_hash",
        "channel",
        "step",
        "steps_total",
        "reward",
    )
)
BODY: Final = (StructField("extra", _STRING), StructField("body_hash", _STRING))

PARSED: Final = StructType([*ORIGIN, *DEATH, *ENVELOPE, *PAYLOAD, *BODY])
