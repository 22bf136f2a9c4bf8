"""Broker keys for what replicas fetch from each other."""

from ottla.core.config.definition import ConfigKey, Importance
from ottla.core.config.values import ConfigType

HIGH, MEDIUM = Importance.HIGH, Importance.MEDIUM
INT = ConfigType.INT

REPLICATION_KEYS = (
    ConfigKey(
        "replica.fetch.max.bytes",
        INT,
        1024 * 1024,
        "The most bytes of a partition in one answer to a follower; a batch that is larger comes whole.",
        at_least=0,
    ),
    ConfigKey(
        "replica.fetch.response.max.bytes",
        INT,
        10 * 1024 * 1024,
        "The most bytes in one answer to a follower; a batch that is larger comes whole.",
        at_least=0,
    ),
    ConfigKey(
        "replica.fetch.min.bytes",
        INT,
        1,
        "A follower's fetch waits until there are so many bytes, at most replica.fetch.wait.max.ms.",
        HIGH,
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "How long a follower's fetch waits at the leader when there is nothing new; well below replica.lag.time.max.ms,"
        " or replicas of quiet partitions leave the in-sync replicas.",
        HIGH,
        at_least=0,
    ),
    ConfigKey(
        "replica.fetch.backoff.ms",
        INT,
        1_000,
        "The longest wait before a partition is fetched again after an error; the first waits are shorter. (Kafka waits"
        " as long each time.)",
        at_least=0,
    ),
    ConfigKey(
        "replica.socket.timeout.ms",
        INT,
        30_000,
        "How long a follower waits for the answer to a fetch before it connects anew; at least"
        " replica.fetch.wait.max.ms.",
        HIGH,
        at_least=1,
    ),
)
