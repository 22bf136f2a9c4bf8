"""What a query wants to know of the cluster before it reads: which partitions there are, and where they begin and end.

Lives in the driver's planning processes. Owns its clients; turns their failures into messages that name the option.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, TypeVar

from ottla import Admin, Consumer
from ottla.clients.admin import ADMIN_DEFINITION
from ottla.clients.errors import BrokerError, ConnectionFailed, OperationFailed, TimedOut
from ottla.core.errors import ErrorCode
from ottla.core.types import Offset, TopicPartition
from ottla.spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, Bound, BoundKind, Offsets
from ottla.spark.options import ReadOptions

# A cluster that isn't reached by then is reported; shorter than an administrator would wait.
_LOOKUP_TIMEOUT_MS: Final = "30000"
_NO_OFFSET: Final[Offset] = -1
_TIMEOUT: Final = "default.api.timeout.ms"

T = TypeVar("T")


class ClusterNotReached(ConnectionError):
    """No broker answered within the time."""


class NothingToRead(LookupError):
    """A topic or partition that was asked for by name isn't there."""


class Partitions(NamedTuple):
    """The partitions that a subscription means now, each with its topic's id; and what it names in vain."""

    topic_ids: dict[TopicPartition, str | None]
    missing: tuple[str, ...]


class LogView:
    """One per planning process; `close` it. Connects with its first question."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        settings = {_TIMEOUT: _LOOKUP_TIMEOUT_MS} | options.client
        self._admin = Admin({name: value for name, value in settings.items() if name in ADMIN_DEFINITION.keys})
        self._timeout_ms = int(settings[_TIMEOUT])
        self._consumer: Consumer | None = None

    def __enter__(self) -> "LogView":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def partitions(self) -> Partitions:
        """As the cluster has them now."""
        subscription = self._options.subscription
        if subscription.pattern is not None:
            pattern = re.compile(subscription.pattern)
            # Anywhere in the name, as Spark's own source has it.
            names = [name for name in self._ask(self._admin.list_topics) if pattern.search(name)]
            names = [name for name in names if not name.startswith("__")]
        else:
            names = list(subscription.topics) or sorted(
                {topic_partition.topic for topic_partition in subscription.topic_partitions}
            )
        described, missing = self._describe(names)
        found = {
            TopicPartition(name, number): topic_id
            for name, (topic_id, count) in described.items()
            for number in range(count)
        }
        if subscription.pattern is not None:
            return Partitions(found, ())  # deleted while it was asked for: not matched any more
        if subscription.topic_partitions:
            missing = [
                str(topic_partition)
                for topic_partition in subscription.topic_partitions
                if topic_partition not in found
            ]
            found = {
                topic_partition: found[topic_partition]
                for topic_partition in subscription.topic_partitions
                if topic_partition in found
            }
        return Partitions(found, tuple(missing))

    def wanted(self) -> dict[TopicPartition, str | None]:
        """The partitions to begin with; NothingToRead when something that was named isn't there."""
        found = self.partitions()
        if found.missing:
            raise self.not_there(found.missing)
        return found.topic_ids

    def not_there(self, missing: Iterable[str]) -> NothingToRead:
        names = ", ".join(missing)
        return NothingToRead(
            f"{self._options.subscription}: {names} doesn't exist at {self._options.servers}; "
            "create it before the query starts, or check the name"
        )

    def topic_id(self, topic: str) -> str | None:
        """NothingToRead for a topic that isn't there; None where the cluster has no ids."""
        described, missing = self._describe([topic])
        if missing:
            raise self.not_there(missing)
        return described[topic][0]

    def earliest(self, topic_partitions: Iterable[TopicPartition]) -> Offsets:
        return self._list(topic_partitions, Admin.EARLIEST)

    def latest(self, topic_partitions: Iterable[TopicPartition]) -> Offsets:
        """With read_committed only as far as transactions are decided."""
        wanted = list(topic_partitions)
        if not self._options.reads_committed or not wanted:
            return self._list(wanted, Admin.LATEST)
        if self._consumer is None:
            self._consumer = Consumer({_TIMEOUT: _LOOKUP_TIMEOUT_MS} | self._options.client)
        consumer = self._consumer
        return self._ask(lambda: consumer.end_offsets(wanted, timeout_ms=self._timeout_ms))

    def resolve_start(self, topic_partitions: Iterable[TopicPartition]) -> Offsets:
        """Where the options say that reading begins."""
        wanted = list(topic_partitions)
        bound = self._options.starting
        if bound.kind not in (BoundKind.TIMESTAMP, BoundKind.TIMESTAMPS):
            return self._resolve(bound, wanted, "startingOffsets")
        times = _times(bound, wanted, "startingOffsetsByTimestamp")
        found = self._at_times(times)
        without = [topic_partition for topic_partition in wanted if topic_partition not in found]
        if without and not self._options.begins_at_end_without_match:
            listed = ", ".join(
                f"{topic_partition} (from {times[topic_partition]} ms on)" for topic_partition in without
            )
            raise LookupError(
                f"no record at or after the starting time in {listed}; "
                "set startingOffsetsByTimestampStrategy to latest to begin at the end there"
            )
        return found | self.latest(without)

    def resolve_end(self, topic_partitions: Iterable[TopicPartition]) -> Offsets:
        """Where the options say that a batch query ends."""
        wanted = list(topic_partitions)
        bound = self._options.ending
        if bound.kind not in (BoundKind.TIMESTAMP, BoundKind.TIMESTAMPS):
            return self._resolve(bound, wanted, "endingOffsets")
        found = self._at_times(_times(bound, wanted, "endingOffsetsByTimestamp"))
        return found | self.latest(topic_partition for topic_partition in wanted if topic_partition not in found)

    def _resolve(self, bound: Bound, topic_partitions: list[TopicPartition], option: str) -> Offsets:
        if bound.kind is BoundKind.EARLIEST:
            return self.earliest(topic_partitions)
        if bound.kind is BoundKind.LATEST:
            return self.latest(topic_partitions)
        given = bound.by_topic_partition or {}
        _check_places(given, topic_partitions, option)
        found = dict(given)
        found |= self.earliest(
            topic_partition for topic_partition, offset in given.items() if offset == EARLIEST_OFFSET
        )
        found |= self.latest(topic_partition for topic_partition, offset in given.items() if offset == LATEST_OFFSET)
        return found

    def _at_times(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """The first offset at or after each time; partitions without one are left out."""
        found: Offsets = {}
        for time_ms in sorted(set(times.values())):
            listed = self._list(
                (topic_partition for topic_partition in times if times[topic_partition] == time_ms), time_ms
            )
            found |= {topic_partition: offset for topic_partition, offset in listed.items() if offset != _NO_OFFSET}
        return found

    def _list(self, topic_partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
        wanted = list(topic_partitions)
        if not wanted:
            return {}
        listed = self._ask(lambda: self._admin.list_offsets(wanted, timestamp_ms))
        return {topic_partition: found.offset for topic_partition, found in listed.items()}

    def _describe(self, names: list[str]) -> tuple[dict[str, tuple[str | None, int]], list[str]]:
        """Id and number of partitions of each topic, and the names that there is no topic of."""
        if not names:
            return {}, []
        try:
            described = self._ask(lambda: self._admin.describe_topics(names))
            missing = []
        except OperationFailed as failed:
            unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
            missing = [name for name, error in failed.failures.items() if error.error_code in unknown]
            if len(missing) < len(failed.failures):
                raise
            described = {name: topic for name, topic in failed.outcomes.items() if not isinstance(topic, BrokerError)}
        return {name: (topic.topic_id, len(topic.partitions)) for name, topic in described.items()}, missing

    def _ask(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except (ConnectionFailed, TimedOut) as error:
            raise ClusterNotReached(
                f"{self._options.subscription}: no answer from kafka.bootstrap.servers={self._options.servers} "
                f"within {self._timeout_ms} ms (kafka.{_TIMEOUT}): {error}"
            ) from error


def _times(bound: Bound, topic_partitions: list[TopicPartition], option: str) -> Mapping[TopicPartition, int]:
    if bound.timestamp_ms is not None:
        return dict.fromkeys(topic_partitions, bound.timestamp_ms)
    given = bound.by_topic_partition or {}
    _check_places(given, topic_partitions, option)
    return given


def _check_places(given: Mapping[TopicPartition, int], topic_partitions: list[TopicPartition], option: str) -> None:
    """Offsets for all partitions or for none: a forgotten one would begin anywhere."""
    left_out = sorted(set(topic_partitions) - given.keys())
    unknown = sorted(given.keys() - set(topic_partitions))
    if left_out or unknown:
        parts = [f"has none for {', '.join(map(str, left_out))}"] if left_out else []
        parts += [f"names {', '.join(map(str, unknown))}, which isn't read"] if unknown else []
        raise ValueError(f"{option} {' and '.join(parts)}; name each partition once, -2 for earliest, -1 for latest")
