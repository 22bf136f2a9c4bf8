"""All keys of a topic. Type, range and default of each come from the broker key that it overrides."""

from ottla.core.config.broker_keys import BROKER_DEFINITION
from ottla.core.config.definition import ConfigKey, Definition, DynamicMode, Synonym
from ottla.core.config.kafka_keys import TOPIC_KEYS_NOT_SERVED

# Topic key -> the broker key that gives its default.
_BROKER_KEY_OF = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}


def _topic_key(name: str, broker_name: str) -> ConfigKey:
    broker_key = BROKER_DEFINITION.keys[broker_name]
    return broker_key._replace(
        name=name,
        default=None,  # the broker's value, whatever it is now
        dynamic=DynamicMode.CLUSTER_WIDE,  # a topic's config can always be changed
        synonyms=(Synonym(broker_name),),
    )


TOPIC_DEFINITION = Definition(
    "topic",
    (_topic_key(name, broker_name) for name, broker_name in _BROKER_KEY_OF.items()),
    not_served=TOPIC_KEYS_NOT_SERVED,
)
