"""The options of the source and the sink: the names of Spark's own Kafka source, checked as a whole.

Spark hands keys over in lower case; messages have them as its documentation writes them. Reads no cluster.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Final, NamedTuple

from ottla.clients.config import ClientConfig, ClientDefinition
from ottla.core.config.definition import ConfigError
from ottla.core.types import TopicPartition
from ottla.spark.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Bound,
    BoundKind,
    parse_numbers,
    parse_topic_partitions,
)

_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_STARTING: Final = (
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
)
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_READING: Final = (
    *_SUBSCRIPTIONS,
    *_STARTING,
    *_ENDING,
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
)
# Spark hands these to every sink, its own to keep.
_WRITING: Final = ("topic", "includeHeaders", "checkpointLocation", "queryName")
_REFUSED: Final = {
    "fetchOffset.numRetries": "kafka.default.api.timeout.ms is for how long offsets are asked for",
    "fetchOffset.retryIntervalMs": "kafka.retry.backoff.ms is the wait between two attempts",
    "kafka.auto.offset.reset": "startingOffsets says where to begin, and failOnDataLoss what to do when that is gone",
    "kafka.enable.auto.commit": "offsets are in the query's checkpoint; nothing is committed to a group",
    "kafka.auto.commit.interval.ms": "nothing is committed to a group",
    "kafka.key.deserializer": "keys are bytes; cast the column",
    "kafka.value.deserializer": "values are bytes; cast the column",
    "kafka.key.serializer": "keys are bytes or text; cast the column",
    "kafka.value.serializer": "values are bytes or text; cast the column",
    "kafka.interceptor.classes": "records go as columns; there are no calls for each record",
    "kafka.partitioner.class": "give a column partition, or a key",
    "kafka.transactional.id": "Spark may run a task twice; the sink is at least once",
    "kafka.group.instance.id": "the source is in no group",
}
_PREFIX: Final = "kafka."
_SERVERS: Final = "kafka.bootstrap.servers"
_GROUP: Final = "kafka.group.id"
CLIENT_ID: Final = "ottla-spark"

_POLL_TIMEOUT_MS: Final = 120_000
_TRIGGER_DELAY_MS: Final = 15 * 60_000
_DURATION: Final = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?")
_UNIT_MS: Final = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class OptionError(ValueError):
    """Names every problem of the options."""


class Use(Enum):
    """What the options are for: some fit only some uses."""

    BATCH = "a batch query"
    STREAM = "a streaming query"
    WRITE = "writing"


class Subscription(NamedTuple):
    """Which partitions to read; one of the three is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    topic_partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern {self.pattern}"
        if self.topic_partitions:
            return "assign " + ", ".join(map(str, self.topic_partitions))
        return "subscribe " + ", ".join(self.topics)


class ReadOptions(NamedTuple):
    """How to read; `client` are a consumer's settings, with Kafka's names."""

    client: dict[str, str]
    subscription: Subscription
    starting: Bound
    ending: Bound
    begins_at_end_without_match: bool
    fails_on_data_loss: bool
    includes_headers: bool
    min_partitions: int | None
    max_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    poll_timeout_ms: int

    @property
    def servers(self) -> str:
        return self.client["bootstrap.servers"]

    @property
    def reads_committed(self) -> bool:
        return self.client.get("isolation.level") == "read_committed"


class WriteOptions(NamedTuple):
    """How to write; `client` are a producer's settings."""

    client: dict[str, str]
    topic: str | None


def parse_read_options(given: Mapping[str, str], use: Use) -> ReadOptions:
    """OptionError names every problem."""
    from ottla.clients.consumer.keys import CONSUMER_DEFINITION

    options = _Options(given, _READING, use)
    client = options.client_settings(CONSUMER_DEFINITION)
    if use is Use.STREAM:
        for name in _ENDING:
            if options.has(name):
                options.refuse(name, "a streaming query has no end; stop it, or use Trigger.AvailableNow")
    parsed = ReadOptions(
        client=client,
        subscription=_subscription(options),
        starting=_starting(options, use),
        ending=_ending(options),
        begins_at_end_without_match=options.one_of("startingOffsetsByTimestampStrategy", "error", "latest") == "latest",
        fails_on_data_loss=options.boolean("failOnDataLoss", default=True),
        includes_headers=options.boolean("includeHeaders", default=False),
        min_partitions=options.number("minPartitions"),
        max_partitions=options.number("maxPartitions"),
        max_records_per_partition=options.number("maxRecordsPerPartition"),
        max_offsets_per_trigger=options.number("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=options.number("minOffsetsPerTrigger"),
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", default_ms=_TRIGGER_DELAY_MS),
        poll_timeout_ms=options.number("kafkaConsumer.pollTimeoutMs") or _POLL_TIMEOUT_MS,
    )
    least, most = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        options.refuse("minOffsetsPerTrigger", f"it is above maxOffsetsPerTrigger={most}")
    fewest, largest = parsed.min_partitions, parsed.max_partitions
    if fewest is not None and largest is not None and fewest > largest:
        options.refuse("minPartitions", f"it is above maxPartitions={largest}")
    options.finish()
    return parsed


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """OptionError names every problem."""
    from ottla.clients.producer.keys import PRODUCER_DEFINITION

    options = _Options(given, _WRITING, Use.WRITE)
    client = options.client_settings(PRODUCER_DEFINITION)
    topic = options.text("topic")
    if options.has("topic") and not topic:
        options.refuse("topic", "it is empty")
    options.finish()
    return WriteOptions(client, topic)


class _Options:
    """The given options, and their problems so far."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], use: Use) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self._problems: list[str] = []
        self._use = use
        self._find_unknown(known)

    def _find_unknown(self, known: tuple[str, ...]) -> None:
        by_lower = {name.lower(): name for name in (*known, _SERVERS)}
        refused = {name.lower(): (name, reason) for name, reason in _REFUSED.items()}
        elsewhere = {name.lower() for name in (*_READING, *_WRITING)} - by_lower.keys()
        for name in sorted(self._given):
            if name in refused:
                self._problems.append(f"option {refused[name][0]} is not taken: {refused[name][1]}")
            elif name in elsewhere:
                self._problems.append(f"option {name} is not for {self._use.value}")
            elif name not in by_lower and not name.startswith(_PREFIX):
                near = get_close_matches(name, by_lower, n=1)
                hint = f"did you mean {by_lower[near[0]]}?" if near else "settings of the client begin with kafka."
                self._problems.append(f"unknown option {name}; {hint}")

    def client_settings(self, definition: ClientDefinition) -> dict[str, str]:
        """The options with the prefix `kafka.`, without it, checked by the client's own rules."""
        refused = {name.lower() for name in _REFUSED}
        settings = {
            name.removeprefix(_PREFIX): value
            for name, value in self._given.items()
            if name.startswith(_PREFIX) and name not in refused and name != _GROUP
        }
        if not settings.get("bootstrap.servers"):
            self._problems.append(f"option {_SERVERS} is needed: host:port of a broker, or several with commas")
        # The source joins no group: an option for its name names the client, in the broker's logs, metrics and quotas.
        named = self._given.get(_GROUP) or self._given.get("groupidprefix")
        settings.setdefault("client.id", named or CLIENT_ID)
        try:
            ClientConfig.parse(definition, settings)
        except ConfigError as error:
            self._problems.extend(f"{_PREFIX}*: {problem}" for problem in error.problems)
        return settings

    def has(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def refuse(self, name: str, why: str) -> None:
        self._problems.append(f"option {name}={self._given[name.lower()]}: {why}")

    def number(self, name: str, *, at_least: int = 1) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.isdecimal() or int(text) < at_least:
            self.refuse(name, f"expected a whole number of at least {at_least}")
            return None
        return int(text)

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            self.refuse(name, "expected true or false")
        return text.lower() == "true"

    def one_of(self, name: str, *values: str) -> str:
        text = self.text(name)
        if text is None:
            return values[0]
        if text.lower() not in values:
            self.refuse(name, f"expected {' or '.join(values)}")
        return text.lower()

    def duration_ms(self, name: str, *, default_ms: int) -> int:
        text = self.text(name)
        if text is None:
            return default_ms
        found = _DURATION.fullmatch(text.lower())
        if found is None:
            self.refuse(name, "expected a duration such as 500ms, 30s or 15m")
            return default_ms
        return int(int(found.group(1)) * _UNIT_MS[found.group(2) or "ms"])

    def finish(self) -> None:
        if self._problems:
            raise OptionError("; ".join(self._problems))

    def problem(self, text: str) -> None:
        self._problems.append(text)


def _subscription(options: _Options) -> Subscription:
    given = [name for name in _SUBSCRIPTIONS if options.has(name)]
    if len(given) != 1:
        seen = f"{' and '.join(given)} are given" if given else "none is given"
        options.problem(f"one of subscribe, subscribePattern and assign says what to read; {seen}")
        return Subscription()
    (name,) = given
    text = options.text(name) or ""
    if name == "assign":
        try:
            return Subscription(topic_partitions=parse_topic_partitions(text))
        except ValueError as error:
            options.refuse(name, str(error))
    elif name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if topics:
            return Subscription(topics=topics)
        options.refuse(name, "expected topics, with commas between them")
    else:
        try:
            re.compile(text)
        except re.error as error:
            options.refuse(name, f"no pattern: {error}")
        if text:
            return Subscription(pattern=text)
        options.refuse(name, "expected a pattern")
    return Subscription()


def _starting(options: _Options, use: Use) -> Bound:
    by_time = _by_time(options, "startingTimestamp", "startingOffsetsByTimestamp")
    if by_time is not None:
        return by_time
    default = BoundKind.EARLIEST if use is Use.BATCH else BoundKind.LATEST
    bound = _by_offsets(options, "startingOffsets", default)
    if use is Use.BATCH and _has(bound, BoundKind.LATEST, LATEST_OFFSET):
        options.refuse("startingOffsets", "a batch query that begins at the latest offset would read nothing")
    return bound


def _ending(options: _Options) -> Bound:
    by_time = _by_time(options, "endingTimestamp", "endingOffsetsByTimestamp")
    if by_time is not None:
        return by_time
    bound = _by_offsets(options, "endingOffsets", BoundKind.LATEST)
    if _has(bound, BoundKind.EARLIEST, EARLIEST_OFFSET):
        options.refuse("endingOffsets", "a query that ends at the earliest offset would read nothing")
    return bound


def _by_time(options: _Options, for_all: str, for_each: str) -> Bound | None:
    """As in Spark's source: one time for all overrides times for each, and both override offsets."""
    if options.has(for_all):
        timestamp_ms = options.number(for_all, at_least=0)
        return Bound(BoundKind.TIMESTAMP, timestamp_ms=timestamp_ms or 0)
    text = options.text(for_each)
    if text is None:
        return None
    times = {}
    try:
        times = parse_numbers(text)
        negative = [str(topic_partition) for topic_partition, time_ms in times.items() if time_ms < 0]
        if negative:
            raise ValueError(f"a time below 0 for {', '.join(negative)}")
    except ValueError as error:
        options.refuse(for_each, str(error))
    return Bound(BoundKind.TIMESTAMPS, times)


def _by_offsets(options: _Options, name: str, default: BoundKind) -> Bound:
    text = options.text(name)
    if text is None:
        return Bound(default)
    if text.lower() in ("earliest", "latest"):
        return Bound(BoundKind(text.lower()))
    offsets = {}
    try:
        if not text.startswith("{"):
            raise ValueError('expected earliest, latest, or offsets: {"topic": {"0": 23, "1": -2}}')
        offsets = parse_numbers(text)
        wrong = [str(topic_partition) for topic_partition, offset in offsets.items() if offset < EARLIEST_OFFSET]
        if wrong:
            raise ValueError(f"an offset below -2 (earliest) for {', '.join(wrong)}")
    except ValueError as error:
        options.refuse(name, str(error))
    return Bound(BoundKind.OFFSETS, offsets)


def _has(bound: Bound, kind: BoundKind, offset: int) -> bool:
    return bound.kind is kind or (
        bound.kind is BoundKind.OFFSETS and offset in (bound.by_topic_partition or {}).values()
    )
