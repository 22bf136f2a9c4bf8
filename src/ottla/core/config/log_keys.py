"""Broker keys for the log on disk. Most are the default of a topic key (`topic_keys.py`)."""

from ottla.core.config.definition import ConfigKey, DynamicMode, Importance, Synonym
from ottla.core.config.values import LONG_MAX, ConfigType, ConfigValue

HIGH, LOW = Importance.HIGH, Importance.LOW
CLUSTER_WIDE = DynamicMode.CLUSTER_WIDE
INT, LONG, LIST, STRING = ConfigType.INT, ConfigType.LONG, ConfigType.LIST, ConfigType.STRING

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


def _problem_with_retention(value: ConfigValue) -> str | None:
    return "expected -1 (no limit) or at least 1" if value == 0 else None


def _problem_with_gzip_level(value: ConfigValue) -> str | None:
    return "expected -1 (the codec's own default) or 1 to 9" if value == 0 else None


LOG_KEYS = (
    ConfigKey("log.dir", LIST, ("data",), "Used when log.dirs is not set. (Kafka: /tmp/kafka-logs.)", HIGH),
    ConfigKey(
        "log.dirs",
        LIST,
        None,
        "Directories that hold the partitions, separated by commas.",
        HIGH,
        synonyms=(Synonym("log.dir"),),
    ),
    # Kafka 4 wants at least 1 MiB; the older, smaller limit lets a test roll quickly and breaks nothing.
    ConfigKey(
        "log.segment.bytes",
        INT,
        1 << 30,
        "The size at which the broker closes a segment and begins the next one.",
        HIGH,
        CLUSTER_WIDE,
        at_least=14,
    ),
    ConfigKey(
        "log.roll.ms",
        LONG,
        None,
        "The age at which the broker closes a segment even if it is not full.",
        HIGH,
        CLUSTER_WIDE,
        at_least=1,
        synonyms=(Synonym("log.roll.hours", HOUR_MS),),
    ),
    ConfigKey("log.roll.hours", INT, 168, "log.roll.ms in hours.", HIGH, at_least=1),
    ConfigKey(
        "log.roll.jitter.ms",
        LONG,
        None,
        "The most that is subtracted from log.roll.ms, at random, so that partitions don't all roll at once.",
        HIGH,
        CLUSTER_WIDE,
        at_least=0,
        synonyms=(Synonym("log.roll.jitter.hours", HOUR_MS),),
    ),
    ConfigKey("log.roll.jitter.hours", INT, 0, "log.roll.jitter.ms in hours.", HIGH, at_least=0),
    ConfigKey(
        "log.retention.ms",
        LONG,
        None,
        "The broker deletes segments that are older than this; -1 keeps them.",
        HIGH,
        CLUSTER_WIDE,
        at_least=-1,
        synonyms=(Synonym("log.retention.minutes", MINUTE_MS), Synonym("log.retention.hours", HOUR_MS)),
    ),
    ConfigKey(
        "log.retention.minutes",
        INT,
        None,
        "log.retention.ms in minutes.",
        HIGH,
        at_least=-1,
        check=_problem_with_retention,
    ),
    ConfigKey(
        "log.retention.hours",
        INT,
        168,
        "log.retention.ms in hours.",
        HIGH,
        at_least=-1,
        check=_problem_with_retention,
    ),
    ConfigKey(
        "log.retention.bytes",
        LONG,
        -1,
        "The broker deletes the oldest segments of a partition that is larger than this; -1 means no limit.",
        HIGH,
        CLUSTER_WIDE,
        at_least=-1,
    ),
    ConfigKey("log.retention.check.interval.ms", LONG, 300000, "How often the broker applies retention.", at_least=1),
    ConfigKey(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        "What happens to old segments: deleted after the retention, compacted to the last record of each key, or both. "
        "Empty keeps everything. A compacted topic refuses records without a key; the compaction itself is not served "
        "so far.",
        dynamic=CLUSTER_WIDE,
        valid_values=("delete", "compact"),
        may_be_empty=True,
    ),
    ConfigKey(
        "log.segment.delete.delay.ms",
        LONG,
        60000,
        "How long the files of a deleted segment stay, for readers that still have them open.",
        dynamic=CLUSTER_WIDE,
        at_least=0,
    ),
    ConfigKey(
        "log.index.interval.bytes",
        INT,
        4096,
        "How many bytes of log lie between two entries of the offset index.",
        dynamic=CLUSTER_WIDE,
        at_least=0,
    ),
    ConfigKey(
        "log.index.size.max.bytes",
        INT,
        10485760,
        "The size at which an index is full and its segment is closed.",
        dynamic=CLUSTER_WIDE,
        at_least=12,  # one entry of the time index
    ),
    ConfigKey(
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        "The broker fsyncs a partition after this many records. With 1, it acknowledges a produce and shows its "
        "records to consumers only after the fsync; one fsync serves all requests that came meanwhile.",
        HIGH,
        CLUSTER_WIDE,
        at_least=1,
    ),
    ConfigKey(
        "log.flush.interval.ms",
        LONG,
        None,
        "The longest time that a record stays unsynced.",
        HIGH,
        CLUSTER_WIDE,
        at_least=0,
        synonyms=(Synonym("log.flush.scheduler.interval.ms"),),
    ),
    ConfigKey(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        "How often the broker checks partitions for log.flush.interval.ms and flush.ms; at least once a second. "
        "(In Kafka a topic's flush.ms has no effect unless this is set.)",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60000,
        "How often the broker writes the recovery points.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60000,
        "How often the broker writes the log start offsets.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        "How often the broker writes the high watermarks.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "message.max.bytes",
        INT,
        1048588,
        "The largest record batch that a producer may send, after compression.",
        HIGH,
        CLUSTER_WIDE,
        at_least=0,
    ),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        "How the broker stores batches: as the producer sent them, or re-compressed.",
        HIGH,
        CLUSTER_WIDE,
        valid_values=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    ),
    ConfigKey(
        "compression.gzip.level",
        INT,
        -1,
        "The level where the broker compresses with gzip; -1 is the codec's own default.",
        dynamic=CLUSTER_WIDE,
        at_least=-1,
        at_most=9,
        check=_problem_with_gzip_level,
    ),
    ConfigKey(
        "compression.lz4.level",
        INT,
        9,
        "The level where the broker compresses with lz4.",
        dynamic=CLUSTER_WIDE,
        at_least=1,
        at_most=17,
    ),
    ConfigKey(
        "compression.zstd.level",
        INT,
        3,
        "The level where the broker compresses with zstd.",
        dynamic=CLUSTER_WIDE,
        at_least=-131072,
        at_most=22,
    ),
    ConfigKey(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "Which time a record carries: the producer's (CreateTime), or the broker's when it appends (LogAppendTime).",
        dynamic=CLUSTER_WIDE,
        valid_values=("CreateTime", "LogAppendTime"),
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a producer's timestamp may lie in the past.",
        dynamic=CLUSTER_WIDE,
        at_least=0,
    ),
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        "How far a producer's timestamp may lie in the future.",
        dynamic=CLUSTER_WIDE,
        at_least=0,
    ),
    ConfigKey(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "Threads for each log directory that recover its partitions at the start.",
        HIGH,
        CLUSTER_WIDE,
        at_least=1,
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        INT,
        86400000,
        "The broker forgets a producer id that wrote nothing for this long, and can't recognize its duplicates then.",
        LOW,
        CLUSTER_WIDE,
        at_least=1,
    ),
    ConfigKey(
        "producer.id.expiration.check.interval.ms",
        INT,
        600000,
        "How often the broker looks for producer ids that have expired.",
        at_least=1,
    ),
    ConfigKey(
        "ottla.produce.validate.records",
        STRING,
        "kernel",
        "Whether the broker checks each record that is produced (lengths, counts, offsets, timestamps), as Kafka "
        "does, and not only the batch's header and checksum. kernel: where the C kernel was built, which makes it "
        "quick. always: also without it, for some microseconds a record. never, and kernel without it: a client that "
        "lies about the inside of a batch can stop every reader of that partition. Batches for compacted topics, those "
        "that are re-compressed, and those whose largest timestamp can't be right are always checked.",
        LOW,
        valid_values=("kernel", "always", "never"),
    ),
    ConfigKey(
        "ottla.segment.open.files.max",
        INT,
        2000,
        "The most segment files that stay open, over all partitions; fewer where the process may open few files.",
        LOW,
        at_least=1,
    ),
    ConfigKey(
        "ottla.log.scrub.interval.ms",
        LONG,
        7 * 24 * HOUR_MS,
        "How often a background scrub reads all closed segments and checks their checksums; -1 turns it off.",
        LOW,
        at_least=-1,
        check=lambda value: "expected -1 (off) or at least 1" if value == 0 else None,
    ),
    ConfigKey(
        "ottla.log.scrub.bytes.per.second",
        LONG,
        10485760,
        "How fast the background scrub reads.",
        LOW,
        at_least=1,
    ),
)
