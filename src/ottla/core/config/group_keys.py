"""Broker keys for consumer groups and for the topic that has their offsets."""

from ottla.core.config.definition import ConfigKey, Importance
from ottla.core.config.values import INT_MAX, ConfigType

HIGH = Importance.HIGH
INT, LONG, SHORT = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT

MINUTE_MS = 60_000

GROUP_KEYS = (
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        INT,
        3_000,
        "How long an empty group waits for more members before its first rebalance; each new member extends the wait,"
        " up to the rebalance timeout.",
        at_least=0,
    ),
    ConfigKey("group.min.session.timeout.ms", INT, 6_000, "The shortest session timeout that a member may ask for."),
    ConfigKey(
        "group.max.session.timeout.ms", INT, 30 * MINUTE_MS, "The longest session timeout that a member may ask for."
    ),
    ConfigKey("group.max.size", INT, INT_MAX, "The most members that a group may have.", at_least=1),
    ConfigKey(
        "offset.metadata.max.bytes",
        INT,
        4096,
        "The longest metadata that may be committed with an offset; 32767 bytes is the most that a record holds.",
        HIGH,
        at_least=0,
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        INT,
        5_000,
        "How long a request of a group waits for its records to be committed.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "offsets.retention.minutes",
        INT,
        7 * 24 * 60,
        "How long the offsets of a group are kept after its last member left, or after it unsubscribed from the topic;"
        " for consumers that assign partitions themselves the time begins with the commit.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        LONG,
        10 * MINUTE_MS,
        "How often the broker looks for expired offsets.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "offsets.topic.num.partitions",
        INT,
        50,
        "Partitions of __consumer_offsets when it is created; each coordinates its share of the groups.",
        HIGH,
        at_least=1,
        at_most=10_000,
    ),
    ConfigKey(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "Replicas of __consumer_offsets when it is created; as many as there are live brokers, if those are fewer."
        " (Kafka waits for them instead.)",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        INT,
        100 << 20,
        "segment.bytes of __consumer_offsets when it is created; small, so that loading and cleaning are quick.",
        HIGH,
        at_least=14,
    ),
    ConfigKey(
        "offsets.topic.compression.codec",
        INT,
        0,
        "The codec for records of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        HIGH,
        at_least=0,
        at_most=4,
    ),
    ConfigKey(
        "offsets.load.buffer.size",
        INT,
        5 << 20,
        "How many bytes of __consumer_offsets the broker reads at a time when it loads a partition.",
        HIGH,
        at_least=1,
    ),
)
