"""The consumer's config keys, with Kafka's names, defaults and ranges; each has an effect."""

from typing import TYPE_CHECKING, Final

from ottla.clients.config import ClientDefinition
from ottla.clients.consumer.reset import parse_reset
from ottla.clients.consumer.strategies import parse_strategies
from ottla.core.config.definition import ConfigKey, Importance
from ottla.core.config.values import ConfigType, ConfigValue

if TYPE_CHECKING:
    from ottla.clients.config import ClientConfig

_HIGH, _LOW = Importance.HIGH, Importance.LOW
_BOOLEAN, _CLASS, _INT, _LIST, _STRING = (
    ConfigType.BOOLEAN,
    ConfigType.CLASS,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.STRING,
)


def _problem_with_reset(value: ConfigValue) -> str | None:
    try:
        parse_reset(str(value))
    except ValueError as error:
        return str(error)
    return None


def _problem_with_strategies(value: ConfigValue) -> str | None:
    try:
        parse_strategies(value if isinstance(value, tuple) else (str(value),))
    except ValueError as error:
        return str(error)
    return None


def _problem_with_name(value: ConfigValue) -> str | None:
    return "expected a name, not an empty text" if value == "" else None


CONSUMER_KEYS: Final = (
    ConfigKey(
        "group.id",
        _STRING,
        None,
        "The group that this consumer belongs to; needed to subscribe and to commit.",
        _HIGH,
        check=_problem_with_name,
    ),
    ConfigKey(
        "group.instance.id",
        _STRING,
        None,
        "Makes this a static member: it keeps its partitions if it restarts within session.timeout.ms.",
        check=_problem_with_name,
    ),
    ConfigKey(
        "group.protocol",
        _STRING,
        "classic",
        "The protocol of the group: classic, with JoinGroup and SyncGroup.",
        valid_values=("classic",),
    ),
    ConfigKey(
        "session.timeout.ms",
        _INT,
        45_000,
        "The coordinator removes a member that sends no heartbeat for this long.",
        _HIGH,
        at_least=1,
    ),
    ConfigKey("heartbeat.interval.ms", _INT, 3_000, "Time between two heartbeats.", _HIGH, at_least=1),
    ConfigKey(
        "max.poll.interval.ms",
        _INT,
        300_000,
        "A member that doesn't poll for this long leaves its group; also how long a rebalance waits for members.",
        at_least=1,
    ),
    ConfigKey("max.poll.records", _INT, 500, "The most records that one poll returns.", at_least=1),
    ConfigKey(
        "partition.assignment.strategy",
        _LIST,
        ("range", "cooperative-sticky"),
        "Assignors that this member supports, the preferred one first: range, roundrobin, sticky, cooperative-sticky,"
        " or the names of Java's classes. Members keep partitions during rebalances if all of them are cooperative.",
        check=_problem_with_strategies,
    ),
    ConfigKey(
        "auto.offset.reset",
        _STRING,
        "latest",
        "Where to begin without a valid position: earliest, latest, by_duration:<ISO 8601>, or none to raise.",
        check=_problem_with_reset,
    ),
    ConfigKey(
        "enable.auto.commit",
        _BOOLEAN,
        None,
        "Poll commits the records that earlier polls returned. By default true if there is a group.id.",
    ),
    ConfigKey("auto.commit.interval.ms", _INT, 5_000, "Time between two automatic commits.", _LOW, at_least=0),
    ConfigKey(
        "fetch.min.bytes",
        _INT,
        1,
        "A broker answers a fetch when it has this many bytes, or after fetch.max.wait.ms.",
        _HIGH,
        at_least=0,
    ),
    ConfigKey("fetch.max.wait.ms", _INT, 500, "How long a broker may wait for fetch.min.bytes.", _LOW, at_least=0),
    ConfigKey(
        "fetch.max.bytes",
        _INT,
        50 * 1024 * 1024,
        "The most bytes in one answer to a fetch, and of all fetched and unread batches; a larger first batch comes"
        " whole.",
        at_least=0,
    ),
    ConfigKey(
        "max.partition.fetch.bytes",
        _INT,
        1024 * 1024,
        "The most bytes of a partition in one answer; the consumer fetches more of it while less than that is unread.",
        _HIGH,
        at_least=0,
    ),
    ConfigKey(
        "isolation.level",
        _STRING,
        "read_uncommitted",
        "read_committed: poll returns no records of open or aborted transactions.",
        valid_values=("read_uncommitted", "read_committed"),
    ),
    ConfigKey("check.crcs", _BOOLEAN, True, "Check each batch against its checksum.", _LOW),
    ConfigKey(
        "exclude.internal.topics", _BOOLEAN, True, "A pattern doesn't match topics that begin with two underscores."
    ),
    ConfigKey(
        "allow.auto.create.topics",
        _BOOLEAN,
        True,
        "Whether the broker may create a topic that is subscribed to or assigned.",
    ),
    ConfigKey("client.rack", _STRING, "", "The rack of this consumer: brokers name the closest replica to read from."),
    ConfigKey(
        "default.api.timeout.ms",
        _INT,
        60_000,
        "The timeout of calls that wait and get no timeout of their own.",
        at_least=0,
    ),
    ConfigKey(
        "key.deserializer", _CLASS, None, "A callable that turns bytes into a record's key. None stays None.", _HIGH
    ),
    ConfigKey(
        "value.deserializer", _CLASS, None, "A callable that turns bytes into a record's value. None stays None.", _HIGH
    ),
    ConfigKey(
        "interceptor.classes",
        _CLASS,
        None,
        "Objects or classes with on_consume(records), on_commit(offsets) and close(), all optional.",
        _LOW,
    ),
)

_NOT_SERVED: Final = {
    "group.remote.assignor": "a key of group.protocol=consumer",
    "share.acknowledgement.mode": "a key of share groups",
}


def _heartbeat_rule(config: "ClientConfig") -> str | None:
    heartbeat_ms, session_ms = config.get_int("heartbeat.interval.ms"), config.get_int("session.timeout.ms")
    if heartbeat_ms >= session_ms:
        return f"heartbeat.interval.ms={heartbeat_ms}: expected less than session.timeout.ms={session_ms}"
    return None


def _group_rule(config: "ClientConfig") -> str | None:
    if config["group.id"] is not None:
        return None
    if config["enable.auto.commit"]:
        return "enable.auto.commit=true: there is no group.id to commit for"
    if config["group.instance.id"] is not None:
        return "group.instance.id: there is no group.id to be a member of"
    return None


CONSUMER_DEFINITION: Final = ClientDefinition(
    "consumer", CONSUMER_KEYS, not_served=_NOT_SERVED, rules=(_heartbeat_rule, _group_rule)
)
