"""The config keys of a producer: Kafka's names and, except for `batch.size`, Kafka's defaults."""

from typing import Any, Final

from ottla.clients.config import ClientConfig, ClientDefinition
from ottla.clients.producer.partitioners import ROUND_ROBIN_NAMES, Partitioner, RoundRobinPartitioner, checked
from ottla.clients.producer.serializers import Serializer, serializer_named
from ottla.clients.producer.settings import ACKS_ALL, MAX_IN_FLIGHT_IDEMPOTENT, ProducerSettings
from ottla.core.config.definition import ConfigError, ConfigKey, Importance
from ottla.core.config.values import INT_MAX, LONG_MAX, ConfigType
from ottla.records.compression import LEVEL_RANGES, NAMES, NONE, SNAPPY, codec_named

_HIGH, _LOW = Importance.HIGH, Importance.LOW
_INT, _LONG, _STRING, _BOOLEAN, _CLASS = (
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.STRING,
    ConfigType.BOOLEAN,
    ConfigType.CLASS,
)
_ACKS: Final = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": 0, "1": 1}
_GZIP_LEVELS, _LZ4_LEVELS, _ZSTD_LEVELS = (LEVEL_RANGES[codec_named(name)] for name in ("gzip", "lz4", "zstd"))

PRODUCER_KEYS = (
    ConfigKey(
        "acks",
        _STRING,
        "all",
        "Which replicas must acknowledge a batch: 0 none, 1 the leader, all (or -1) every in-sync replica.",
        _LOW,
        valid_values=tuple(_ACKS),
    ),
    ConfigKey(
        "enable.idempotence",
        _BOOLEAN,
        True,
        "The broker stores a batch that is sent twice only once, and in order. Needs acks=all, retries and at most 5"
        " requests in flight; if these have other values it is off, unless it is set itself.",
        _LOW,
    ),
    ConfigKey("transactional.id", _STRING, None, "Makes the producer transactional; each id has one live producer."),
    ConfigKey(
        "transaction.timeout.ms",
        _INT,
        60_000,
        "The coordinator aborts a transaction that takes longer.",
        _LOW,
        at_least=1,
    ),
    ConfigKey(
        "batch.size",
        _INT,
        ProducerSettings().batch_size,
        "The most bytes of a batch, uncompressed. (Java: 16384; a request costs more here, and a batch still"
        " lingers no longer than linger.ms.)",
        at_least=0,
    ),
    ConfigKey("linger.ms", _LONG, 5, "How long a batch waits for more records before it is sent.", at_least=0),
    ConfigKey(
        "buffer.memory",
        _LONG,
        32 * 1024 * 1024,
        "The most bytes of all batches together; above it send waits, for max.block.ms at most.",
        _HIGH,
        at_least=1,
    ),
    ConfigKey(
        "max.block.ms",
        _LONG,
        60_000,
        "How long send waits for a topic's metadata and for memory, and how long calls of transactions wait.",
        at_least=0,
    ),
    ConfigKey(
        "max.request.size",
        _INT,
        1024 * 1024,
        "The most bytes of a request, and so of a record, uncompressed; send refuses a larger record.",
        at_least=1,
    ),
    ConfigKey(
        "max.in.flight.requests.per.connection",
        _INT,
        MAX_IN_FLIGHT_IDEMPOTENT,
        "The most requests in flight to one broker. Without idempotence a partition has one batch in flight, so that a"
        " retry can't change the order; with retries=0 or acks=0 it has more.",
        _LOW,
        at_least=1,
    ),
    ConfigKey(
        "delivery.timeout.ms",
        _INT,
        120_000,
        "The longest time from send to acknowledgement, all retries included; then the records fail.",
        at_least=0,
    ),
    ConfigKey(
        "retries",
        _INT,
        INT_MAX,
        "How often the producer retries a batch; usually delivery.timeout.ms ends it first.",
        _HIGH,
        at_least=0,
    ),
    ConfigKey("compression.type", _STRING, "none", "The codec for batches.", _HIGH, valid_values=NAMES),
    ConfigKey(
        "compression.gzip.level",
        _INT,
        None,
        "1 to 9; -1 is the default.",
        at_least=-1,
        at_most=_GZIP_LEVELS[-1],
        check=lambda level: "expected 1 to 9, or -1" if level == 0 else None,
    ),
    ConfigKey("compression.lz4.level", _INT, None, "1 to 17.", at_least=_LZ4_LEVELS[0], at_most=_LZ4_LEVELS[-1]),
    ConfigKey(
        "compression.zstd.level", _INT, None, "-131072 to 22.", at_least=_ZSTD_LEVELS[0], at_most=_ZSTD_LEVELS[-1]
    ),
    ConfigKey("key.serializer", _CLASS, None, "Callable (topic, key) -> bytes, or the name of one of Kafka's.", _HIGH),
    ConfigKey(
        "value.serializer", _CLASS, None, "Callable (topic, value) -> bytes, or the name of one of Kafka's.", _HIGH
    ),
    ConfigKey(
        "partitioner.class",
        _CLASS,
        None,
        "Callable (topic, key, value, partition count) -> partition, or round-robin. Without it the key's hash"
        " (murmur2) decides, and records without a key stick to a partition for a batch.",
    ),
    ConfigKey(
        "partitioner.ignore.keys",
        _BOOLEAN,
        False,
        "Choose partitions as if records had no key; for the default partitioner.",
    ),
    ConfigKey(
        "partitioner.adaptive.partitioning.enable",
        _BOOLEAN,
        True,
        "Records without a key prefer partitions that have a leader and a short queue.",
        _LOW,
    ),
    ConfigKey(
        "interceptor.classes",
        _CLASS,
        None,
        "Objects or classes with on_send(record) -> record and on_acknowledgement(handle), in order.",
        _LOW,
    ),
)

NOT_SERVED: Final = {
    "metadata.max.idle.ms": "the producer keeps topics until it is closed",
    "partitioner.availability.timeout.ms": "the producer avoids partitions without a leader at once",
    "transaction.two.phase.commit.enable": "",
}


def _check_delivery_timeout(config: ClientConfig) -> str | None:
    least_ms = config.get_int("linger.ms") + config.get_int("request.timeout.ms")
    timeout_ms = config.get_int("delivery.timeout.ms")
    if config.is_given("delivery.timeout.ms") and timeout_ms < least_ms:
        return f"delivery.timeout.ms={timeout_ms}: expected at least linger.ms + request.timeout.ms, {least_ms}"
    return None


def _why_not_idempotent(config: ClientConfig) -> str | None:
    if _ACKS[config.get_str("acks")] != ACKS_ALL:
        return f"acks={config.get_str('acks')}, expected all"
    if config.get_int("retries") == 0:
        return "retries=0, expected more"
    if config.get_int("max.in.flight.requests.per.connection") > MAX_IN_FLIGHT_IDEMPOTENT:
        return f"max.in.flight.requests.per.connection is above {MAX_IN_FLIGHT_IDEMPOTENT}"
    return None


def _check_idempotence(config: ClientConfig) -> str | None:
    is_wanted = config.is_given("enable.idempotence") and config.get_bool("enable.idempotence")
    is_transactional = config["transactional.id"] is not None
    if is_transactional and not config.get_bool("enable.idempotence"):
        return "transactional.id: a transactional producer must have enable.idempotence=true"
    reason = _why_not_idempotent(config)
    if reason is not None and (is_wanted or is_transactional):
        return f"{'transactional.id' if is_transactional else 'enable.idempotence=true'} is not possible with {reason}"
    return None


PRODUCER_DEFINITION: Final = ClientDefinition(
    "producer", PRODUCER_KEYS, not_served=NOT_SERVED, rules=(_check_delivery_timeout, _check_idempotence)
)


def settings_of(config: ClientConfig) -> ProducerSettings:
    """The core's settings from a validated config."""
    codec = codec_named(config.get_str("compression.type"))
    delivery_timeout_ms = config.get_int("delivery.timeout.ms")
    if not config.is_given("delivery.timeout.ms"):
        # As in Java: a user who raises the other two need not know this key.
        delivery_timeout_ms = max(
            delivery_timeout_ms, config.get_int("linger.ms") + config.get_int("request.timeout.ms")
        )
    return ProducerSettings(
        acks=_ACKS[config.get_str("acks")],
        codec=codec,
        compression_level=None if codec in (NONE, SNAPPY) else config[f"compression.{NAMES[codec]}.level"],
        batch_size=config.get_int("batch.size"),
        linger_ms=config.get_int("linger.ms"),
        buffer_memory=config.get_int("buffer.memory"),
        max_block_ms=min(config.get_int("max.block.ms"), LONG_MAX // 1_000_000),
        max_request_size=config.get_int("max.request.size"),
        max_in_flight=config.get_int("max.in.flight.requests.per.connection"),
        request_timeout_ms=config.get_int("request.timeout.ms"),
        delivery_timeout_ms=delivery_timeout_ms,
        retries=config.get_int("retries"),
        retry_backoff_ms=config.get_int("retry.backoff.ms"),
        retry_backoff_max_ms=config.get_int("retry.backoff.max.ms"),
        is_idempotent=config.get_bool("enable.idempotence") and _why_not_idempotent(config) is None,
        transactional_id=config.get_optional_str("transactional.id"),
        transaction_timeout_ms=config.get_int("transaction.timeout.ms"),
        partitioner_ignore_keys=config.get_bool("partitioner.ignore.keys"),
        partitioner_adaptive=config.get_bool("partitioner.adaptive.partitioning.enable"),
    )


def serializer_of(config: ClientConfig, name: str) -> Serializer | None:
    value = config[name]
    if isinstance(value, str):
        if ":" not in value:
            try:
                return serializer_named(value)
            except ValueError as error:
                raise ConfigError([f"{name}={value}: {error}"]) from None
        value = config.get_object(name)
    serializer: Serializer | None = _callable(name, value)
    return serializer


def partitioner_of(config: ClientConfig) -> Partitioner | None:
    name = "partitioner.class"
    if config[name] in ROUND_ROBIN_NAMES:
        return RoundRobinPartitioner()
    partitioner: Partitioner | None = _callable(name, config.get_object(name))
    return None if partitioner is None else checked(partitioner)


def interceptors_of(config: ClientConfig) -> list[Any]:
    name = "interceptor.classes"
    return [_made(item) for item in config.get_objects(name)]


def _callable(name: str, value: Any) -> Any:
    value = _made(value)
    if value is not None and not callable(value):
        raise ConfigError([f"{name}={value!r}: expected a callable"])
    return value


def _made(value: Any) -> Any:
    """An object, also where the config names its class."""
    return value() if isinstance(value, type) else value
