"""Broker keys for brokers among each other: who is in sync, who may lead, how one leaves."""

from ottla.core.config.definition import ConfigKey, DynamicMode, Importance
from ottla.core.config.values import ConfigType

HIGH, LOW = Importance.HIGH, Importance.LOW
CLUSTER_WIDE = DynamicMode.CLUSTER_WIDE
BOOLEAN, INT, LONG = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG

CLUSTER_KEYS = (
    ConfigKey(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "A follower that has not caught up with its leader for this long is taken out of the in-sync replicas.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica that is not in sync may lead when no other is alive. What it lacks is lost.",
        HIGH,
        CLUSTER_WIDE,
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Whether the controller gives leaders back to the brokers that are preferred for them.",
        HIGH,
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often the controller looks for leaders that are not where they are preferred.",
        HIGH,
        at_least=1,
    ),
    ConfigKey(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        "The share of a broker's preferred partitions that others may lead before the controller gives them back.",
        HIGH,
        at_least=0,
    ),
    ConfigKey(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Whether a broker that stops first asks the controller to move its leaders to other brokers.",
    ),
    ConfigKey(
        "controlled.shutdown.max.retries",
        INT,
        3,
        "How often a broker that stops asks again while it still leads partitions.",
        at_least=0,
    ),
    ConfigKey(
        "controlled.shutdown.retry.backoff.ms",
        LONG,
        5_000,
        "The wait before it asks again.",
        at_least=0,
    ),
    ConfigKey(
        "controller.socket.timeout.ms",
        INT,
        30_000,
        "How long the controller waits for a broker's answer before it connects anew and asks again.",
        at_least=1,
    ),
)
