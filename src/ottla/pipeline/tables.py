"""The pipeline's tables, declared once for every store: their columns and keys.

No store creates, writes or shows a table that is not here. Columns named in `wall_clock` say when something was done:
two runs over the same events differ only in them.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla.pipeline.topics import TOPICS, Topic

TEXT: Final = "text"
INTEGER: Final = "integer"  # 64 bits
REAL: Final = "real"


class Column(NamedTuple):
    name: str
    type: str


class Table(NamedTuple):
    """Readers look rows up by `partition_key`; with `clustering_key` it identifies a row."""

    name: str
    columns: tuple[Column, ...]
    partition_key: tuple[str, ...]
    clustering_key: tuple[str, ...] = ()
    wall_clock: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        return self.partition_key + self.clustering_key

    def asked_by(self, keys: Sequence[tuple[Any, ...]]) -> tuple[str, ...]:
        """The columns of these keys: the partition key, or the whole key."""
        lengths = {len(key) for key in keys} or {len(self.partition_key)}
        for names in (self.partition_key, self.key):
            if lengths == {len(names)}:
                return names
        raise ValueError(f"{self.name} is asked by ({', '.join(self.partition_key)}) or ({', '.join(self.key)})")

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _columns(text: str) -> tuple[Column, ...]:
    """`name`, `name:integer`, `name:real`, separated by spaces."""
    return tuple(Column(name, type_ or TEXT) for name, _, type_ in (word.partition(":") for word in text.split()))


# In every log table. `day` is the UTC day of event_time; `extra` holds unknown fields as a JSON object, or null;
# `body_hash` is the same for the same event, however its JSON is written.
EVENT_COLUMNS: Final = _columns(
    "event_id event_type schema_version:integer event_time:integer account_id device_id fingerprint ip app_version"
)
_TRAILING_COLUMNS: Final = _columns("extra body_hash")

# Fields of payloads that are numbers; all others are text. Phone numbers are stored as keyed hashes only.
_INTEGER_FIELDS: Final = frozenset({"credit", "duration_ms", "step", "steps_total", "reward"})
_HASHED_FIELDS: Final = {"phone": "phone_hash", "invitee_phone": "invitee_phone_hash"}


def log_table(topic: Topic) -> Table:
    """The table of a topic's events, a row each."""
    payload = tuple(
        Column(_HASHED_FIELDS.get(name, name), INTEGER if name in _INTEGER_FIELDS else TEXT) for name in topic.payload
    )
    subject = "device_id" if topic.key_field == "device_id" else "account_id"
    columns = (*EVENT_COLUMNS, *payload, *_TRAILING_COLUMNS)
    return Table(topic.table, (Column("day", TEXT), *columns), (subject, "day"), ("event_time", "event_id"))


LOG_TABLES: Final = {topic.table: log_table(topic) for topic in TOPICS}

LEDGER: Final = Table(
    "ledger",
    _columns("entry_id account_id event_id rule amount:integer event_time_ms:integer"),
    ("account_id",),
    ("event_time_ms", "entry_id"),
)
BALANCE: Final = Table(
    "balance",
    _columns("account_id balance:integer entries:integer updated_ms:integer"),
    ("account_id",),
    wall_clock=("updated_ms",),
)
TASK_PROGRESS: Final = Table(
    "task_progress",
    _columns(
        "account_id task_id steps_done:integer steps_total:integer done:integer reward_paid:integer updated_ms:integer"
    ),
    ("account_id",),
    ("task_id",),
    wall_clock=("updated_ms",),
)
# A row for each event of a task; folded into task_progress.
TASK_STEP: Final = Table(
    "task_step",
    _columns("account_id task_id step:integer steps_total:integer reward:integer event_id event_time_ms:integer"),
    ("account_id",),
    ("task_id", "step", "event_id"),
)
# The ledger's entry for each finished task, by task: the last event by event time pays.
TASK_REWARD: Final = Table(
    "task_reward",
    _columns("account_id task_id entry_id event_id amount:integer event_time_ms:integer"),
    ("account_id",),
    ("task_id",),
)
DEVICE_ALERT: Final = Table(
    "device_alert",
    _columns(
        "alert_id device_id rule accounts switches:integer window_start_ms:integer window_end_ms:integer "
        "detected_ms:integer"
    ),
    ("alert_id",),
    wall_clock=("detected_ms",),
)
INVITE_ALERT: Final = Table(
    "invite_alert",
    _columns("alert_id inviter_id score:real rules invitees first_event_ms:integer detected_ms:integer"),
    ("alert_id",),
    wall_clock=("detected_ms",),
)
USER_REGION: Final = Table(
    "user_region",
    _columns("account_id country province city phone_hash updated_ms:integer"),
    ("account_id",),
    wall_clock=("updated_ms",),
)
# Origin and key of an event that was later than allowed in its partition.
LATE_EVENT: Final = Table(
    "late_event",
    _columns("topic partition:integer offset:integer event_id event_time_ms:integer behind_ms:integer"),
    ("topic",),
    ("partition", "offset"),
)
# How many dead letters of a class came from a topic, by batch: a batch that runs again replaces its own count.
DEAD_EVENT_COUNT: Final = Table(
    "dead_event_count",
    _columns("topic error_class batch events:integer noted_ms:integer"),
    ("topic",),
    ("error_class", "batch"),
    wall_clock=("batch", "noted_ms"),
)
PIPELINE_METRIC: Final = Table(
    "pipeline_metric",
    _columns("job batch name value:real noted_ms:integer"),
    ("job",),
    ("batch", "name"),
    wall_clock=("batch", "noted_ms"),
)

# What the detectors remember of events: sets of small facts, keyed as the rules look them up. Of a phone number they
# hold a private form and its region (docs/detector-invite-fraud.md).
LOGIN_FACT: Final = Table(
    "login_fact",
    _columns("device_id day event_time_ms:integer event_id account_id"),
    ("device_id", "day"),
    ("event_time_ms", "event_id"),
)
SIGHTING_FACT: Final = Table(
    "sighting_fact",
    _columns("account_id device_id fingerprint network"),
    ("account_id",),
    ("device_id", "fingerprint", "network"),
)
DEVICE_ACCOUNT_FACT: Final = Table(
    "device_account_fact", _columns("device_id account_id"), ("device_id",), ("account_id",)
)
INVITE_FACT: Final = Table(
    "invite_fact",
    _columns(
        "inviter_id event_time_ms:integer event_id invitee_id number_block number_next_block number_place:integer "
        "country province"
    ),
    ("inviter_id",),
    ("event_time_ms", "event_id"),
)
INVITED_BY_FACT: Final = Table("invited_by_fact", _columns("invitee_id inviter_id"), ("invitee_id",), ("inviter_id",))
PLACE_FACT: Final = Table(
    "place_fact", _columns("account_id country province"), ("account_id",), ("country", "province")
)
LIFE_FACT: Final = Table("life_fact", _columns("account_id first_ms:integer second_ms:integer"), ("account_id",))
# When an inviter must be judged again without a new event: the hour and the inviter. Which rows are left depends on the
# clock, and on when someone last trimmed the table.
INVITE_DUE: Final = Table(
    "invite_due", _columns("hour:integer inviter_id"), ("hour",), ("inviter_id",), wall_clock=("hour",)
)
# The largest event time of each topic, and under an empty topic the detector's clock.
# The clock depends on how closely the job followed the topics, not on the events alone.
DETECTOR_CLOCK: Final = Table(
    "detector_clock", _columns("job topic high_ms:integer"), ("job",), ("topic",), wall_clock=("high_ms",)
)

FACT_TABLES: Final = {
    table.name: table
    for table in (
        LOGIN_FACT,
        SIGHTING_FACT,
        DEVICE_ACCOUNT_FACT,
        INVITE_FACT,
        INVITED_BY_FACT,
        PLACE_FACT,
        LIFE_FACT,
        INVITE_DUE,
        DETECTOR_CLOCK,
    )
}

SERVING_TABLES: Final = {
    table.name: table
    for table in (
        LEDGER,
        BALANCE,
        TASK_PROGRESS,
        TASK_STEP,
        TASK_REWARD,
        DEVICE_ALERT,
        INVITE_ALERT,
        USER_REGION,
        LATE_EVENT,
        DEAD_EVENT_COUNT,
        PIPELINE_METRIC,
        *FACT_TABLES.values(),
    )
}
TABLES: Final = {**LOG_TABLES, **SERVING_TABLES}
# Their rows are by the UTC day of their events, and whole days can be dropped.
TABLES_WITH_DAYS: Final = {**LOG_TABLES, LOGIN_FACT.name: LOGIN_FACT}


def table_named(table: str) -> Table:
    """ValueError names the tables that exist, for an unknown name."""
    if table not in TABLES:
        raise ValueError(f"there is no table {table}; there are {', '.join(TABLES)}")
    return TABLES[table]


def table_with_days(table: str) -> Table:
    """As `table_named`, for tables of which whole days can be dropped."""
    if table not in TABLES_WITH_DAYS:
        raise ValueError(f"{table} has no days; the tables with days are {', '.join(TABLES_WITH_DAYS)}")
    return TABLES_WITH_DAYS[table]
