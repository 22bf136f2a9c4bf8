"""All keys of a broker, with Kafka's names and defaults; Ottla's own keys begin with `ottla.`.

Only keys that have an effect are here. Where a default differs from Kafka's, the doc says so.
"""

from ottla.core.config.cluster_keys import CLUSTER_KEYS
from ottla.core.config.definition import ConfigKey, Definition, DynamicMode, Importance, Synonym
from ottla.core.config.group_keys import GROUP_KEYS
from ottla.core.config.kafka_keys import BROKER_KEYS_NOT_SERVED, BROKER_PREFIXES_NOT_SERVED
from ottla.core.config.log_keys import LOG_KEYS
from ottla.core.config.network_keys import NETWORK_KEYS
from ottla.core.config.operating_keys import OPERATING_KEYS
from ottla.core.config.replication_keys import REPLICATION_KEYS
from ottla.core.config.values import INT_MAX, ConfigType

HIGH, LOW = Importance.HIGH, Importance.LOW
CLUSTER_WIDE = DynamicMode.CLUSTER_WIDE
BOOLEAN, INT, STRING = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.STRING

GENERAL_KEYS = (
    ConfigKey(
        "broker.id",
        INT,
        1,
        "The id of this broker, unique in its cluster. (Kafka has no default.)",
        HIGH,
        at_least=0,
        at_most=INT_MAX,
        synonyms=(Synonym("node.id"),),
    ),
    ConfigKey("node.id", INT, None, "The newer name of broker.id.", HIGH, at_least=0, at_most=INT_MAX),
    ConfigKey(
        "broker.rack", STRING, None, "The rack, or availability zone, of this broker; clients see it in the metadata."
    ),
    ConfigKey(
        "num.partitions", INT, 1, "Partitions of a new topic when the request to create it names no number.", at_least=1
    ),
    ConfigKey(
        "default.replication.factor",
        INT,
        1,
        "Replicas of a new topic when the request to create it names no number.",
        at_least=1,
    ),
    ConfigKey(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Whether the broker creates an unknown topic that a client asks for by name.",
        HIGH,
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        INT,
        2000,
        "The most partitions in one answer to DescribeTopicPartitions; its cursor says where to go on.",
        at_least=1,
    ),
    ConfigKey("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted.", HIGH),
    ConfigKey(
        "min.insync.replicas",
        INT,
        1,
        "How many in-sync replicas a produce with acks=all needs.",
        HIGH,
        CLUSTER_WIDE,
        at_least=1,
    ),
    ConfigKey(
        "background.threads",
        INT,
        10,
        "The most threads for work outside the event loop: fsync, recovery, deletion, cold reads.",
        HIGH,
        CLUSTER_WIDE,
        at_least=1,
    ),
    ConfigKey(
        "ottla.coordination.path",
        STRING,
        None,
        "The file of the embedded coordination store; coordination.sqlite in the first log directory when not set.",
        LOW,
    ),
)

BROKER_DEFINITION = Definition(
    "broker",
    (*GENERAL_KEYS, *NETWORK_KEYS, *LOG_KEYS, *GROUP_KEYS, *REPLICATION_KEYS, *CLUSTER_KEYS, *OPERATING_KEYS),
    not_served=BROKER_KEYS_NOT_SERVED,
    not_served_prefixes=BROKER_PREFIXES_NOT_SERVED,
)
