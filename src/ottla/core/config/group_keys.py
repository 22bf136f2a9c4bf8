"""Broker keys of consumer groups and of the topic that keeps their offsets."""

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
        "How long an empty group waits for more members before its first rebalance; each that comes extends it,"
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
        "The longest text that may be committed with an offset; 32767 bytes is the most that a record holds.",
        HIGH,
        at_least=0,
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        INT,
        5_000,
        "How long a group's request waits until its records are committed.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "offsets.retention.minutes",
        INT,
        7 * 24 * 60,
        "How long the offsets of a group are kept after its last member left, or of a partition that it no longer"
        " subscribes to; offsets of consumers without a group count from their commit.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        LONG,
        10 * MINUTE_MS,
        "How often expired offsets are looked for.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "offsets.topic.num.partitions",
        INT,
        50,
        "Partitions of __consumer_offsets, when it is created; each coordinates its share of the groups.",
        HIGH,
        at_least=1,
        at_most=10_000,
    ),
    ConfigKey(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "Replicas of __consumer_offsets, when it is created; where fewer brokers are alive, as many as there are."
        " (Kafka waits for them instead.)",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        INT,
        100 << 20,
        "segment.bytes of __consumer_offsets, when it is created; small, so that it is loaded and cleaned quickly.",
        HIGH,
        at_least=14,
    ),
    ConfigKey(
        "offsets.topic.compression.codec",
        INT,
        0,
        "How records of __consumer_offsets are compressed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        HIGH,
        at_least=0,
        at_most=4,
    ),
    ConfigKey(
        "offsets.load.buffer.size",
        INT,
        5 << 20,
        "How many bytes of __consumer_offsets are read at a time when a partition is loaded.",
        HIGH,
        at_least=1,
    ),
)
