"""Sends dead letters back to their original topics, each once, with the original key, value and headers.

After every few hundred dead letters it commits its progress (`redrive_progress.py`). A crash between sending and the
commit sends some twice; the jobs count an event once however often it comes. Dead letters stay in `<topic>.dlq`; an
event that dies again is a new dead letter there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from ottla.clients.admin import Admin
from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.values import ConsumerRecord
from ottla.clients.errors import ClientError
from ottla.clients.producer.producer import Producer
from ottla.core.types import TopicPartition
from ottla.pipeline.dead_letters.origin_headers import OriginHeaders, Wanted, read_range
from ottla.pipeline.dead_letters.redrive_progress import Marks
from ottla.pipeline.dead_letters.sink import (
    ERROR_CLASS,
    ERROR_REASON,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TOPIC,
    dead_letter_topic,
)

_TOGETHER: Final = 500
_REASONS_SHOWN: Final = 3
_REASONS_COUNTED: Final = 1_000


class RedriveFailed(Exception):
    """A dead letter could not be sent; those before the last commit were."""


class Letter(NamedTuple):
    """A dead letter: its position, when it died, the original record, and why it died."""

    topic_partition: TopicPartition
    offset: int
    timestamp_ms: int
    record: Wanted
    error_class: str
    error_reason: str

    @property
    def topic(self) -> str:
        return self.record.topic_partition.topic


class Choice(NamedTuple):
    """Dead letters of these topics and of these error classes, or all, from `since_ms` to before `until_ms`."""

    topics: tuple[str, ...]
    classes: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, letter: Letter) -> bool:
        return (
            (self.classes is None or letter.error_class in self.classes)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or letter.timestamp_ms < self.until_ms)
        )


class Summary:
    """What was sent, or would be: by topic and class, with some reasons."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.reasons: dict[tuple[str, str], Counter[str]] = {}
        self.strangers = 0  # records of a dead-letter topic that are not from the pipeline
        self.without_headers = 0  # the original record is gone, so its headers are unknown

    @property
    def letters(self) -> int:
        return self.counts.total()

    def add(self, letter: Letter) -> None:
        kind = (letter.topic, letter.error_class)
        self.counts[kind] += 1
        reasons = self.reasons.setdefault(kind, Counter())
        if letter.error_reason in reasons or len(reasons) < _REASONS_COUNTED:
            reasons[letter.error_reason] += 1

    def common_reasons(self, kind: tuple[str, str]) -> list[str]:
        return [reason for reason, _ in self.reasons[kind].most_common(_REASONS_SHOWN)]


def redrive(
    bootstrap: str, choice: Choice, *, execute: bool, on_sent: Callable[[int], None] = lambda letters: None
) -> Summary:
    """Sends dead letters up to the current ends of their topics. Without `execute` it only counts them."""
    summary = Summary()
    topic_partitions = _topic_partitions(bootstrap, choice.topics)
    with (
        Marks(bootstrap, topic_partitions) as marks,
        Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False}) as reader,
    ):
        ends = reader.end_offsets(topic_partitions) if topic_partitions else {}
        letters = _unsent(_letters(reader, ends, summary), marks, choice)
        if not execute:
            for letter, what in letters:
                if what is _What.SENT:
                    summary.add(letter)
            return summary
        with (
            Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}) as producer,
            OriginHeaders(bootstrap) as headers,
        ):
            sending = _Sending(producer, headers, marks, summary, on_sent)
            for letter, what in letters:
                sending.take(letter, what)
            sending.finish(ends)
    return summary


class _What(Enum):
    """What happens to a dead letter."""

    SENT = 1
    REPEATED = 2  # its original record is sent, or was: a batch that runs again repeats its dead letters
    LEFT = 3


def _unsent(letters: Iterable[Letter], marks: Marks, choice: Choice) -> Iterator[tuple[Letter, _What]]:
    """Those that were not sent yet."""
    sent: set[tuple[TopicPartition, int]] = set()
    for letter in letters:
        origin = (letter.record.topic_partition, letter.record.offset)
        if marks.progress(letter.error_class, letter.topic_partition).is_done(letter.offset):
            sent.add(origin)
        elif not choice.takes(letter):
            yield letter, _What.LEFT
        elif origin in sent:
            yield letter, _What.REPEATED
        else:
            sent.add(origin)
            yield letter, _What.SENT


class _Sending:
    """Gathers dead letters, sends them together, and commits their offsets when the cluster has them."""

    def __init__(
        self,
        producer: Producer,
        headers: OriginHeaders,
        marks: Marks,
        summary: Summary,
        on_sent: Callable[[int], None],
    ) -> None:
        self._producer = producer
        self._headers = headers
        self._marks = marks
        self._summary = summary
        self._on_sent = on_sent
        self._waiting: list[Letter] = []
        # By class and partition: the offset since which none was left out, and where the current run of them began.
        self._run_starts: dict[tuple[str, TopicPartition], int] = {}
        self._open_runs: dict[tuple[str, TopicPartition], int] = {}

    def take(self, letter: Letter, what: _What) -> None:
        run = error_class, topic_partition = letter.error_class, letter.topic_partition
        if what is _What.LEFT:
            self._run_starts[run] = letter.offset + 1
            self._open_runs.pop(run, None)
            return
        first = self._run_starts.setdefault(run, self._marks.progress(error_class, topic_partition).next_offset)
        self._open_runs[run] = first
        self._marks.plan(error_class, topic_partition, first=first, last=letter.offset + 1)
        if what is _What.SENT:
            self._waiting.append(letter)
        if len(self._waiting) >= _TOGETHER:
            self._send()

    def finish(self, ends: Mapping[TopicPartition, int]) -> None:
        """Send the last ones. Records after them are of other classes, so commit the end: a lag tool shows no lag."""
        for (error_class, topic_partition), first in self._open_runs.items():
            self._marks.plan(error_class, topic_partition, first=first, last=ends[topic_partition])
        self._send()

    def _send(self) -> None:
        letters, self._waiting = self._waiting, []
        headers = self._headers.find(letter.record for letter in letters)
        try:
            sent = []
            for letter in letters:
                record = letter.record
                found = headers.get(record)
                self._summary.without_headers += found is None
                sent.append(self._producer.send(letter.topic, record.value, key=record.key, headers=found))
            self._producer.flush()
            for handle in sent:
                handle.result()
        except ClientError as error:
            raise RedriveFailed(
                f"dead letters could not be sent back: {error}; run it again, and it continues there"
            ) from error
        self._marks.commit()
        for letter in letters:
            self._summary.add(letter)
        self._on_sent(len(letters))


def _topic_partitions(bootstrap: str, topics: Sequence[str]) -> list[TopicPartition]:
    """The partitions of the dead-letter topics that exist: the first dead letter creates a topic."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.connect()  # fails at once for a wrong address; only what comes after is worth retries
        wanted = {dead_letter_topic(topic) for topic in topics} & set(admin.list_topics())
        described = admin.describe_topics(sorted(wanted)) if wanted else {}
    return [
        TopicPartition(name, number)
        for name, topic in sorted(described.items())
        for number in range(len(topic.partitions))
    ]


def _letters(reader: Consumer, ends: Mapping[TopicPartition, int], summary: Summary) -> Iterator[Letter]:
    """All of them, partition by partition in the order of their offsets."""
    starts = reader.beginning_offsets(ends) if ends else {}
    for topic_partition, end in ends.items():
        for record in read_range(reader, topic_partition, start=starts[topic_partition], end=end):
            letter = _letter(topic_partition, record)
            if letter is None:
                summary.strangers += 1
            else:
                yield letter


def _letter(topic_partition: TopicPartition, record: ConsumerRecord) -> Letter | None:
    headers = dict(record.headers)
    try:
        topic, partition, offset, error_class = (
            (headers[name] or b"").decode() for name in (ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET, ERROR_CLASS)
        )
        reason = (headers.get(ERROR_REASON) or b"").decode()
        origin = Wanted(TopicPartition(topic, int(partition)), int(offset), record.key, record.value)
    except (KeyError, ValueError):
        return None
    return Letter(topic_partition, record.offset, record.timestamp_ms, origin, error_class, reason)
