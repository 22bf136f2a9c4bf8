"""Where reading begins and ends, from the values of `-o`: beginning, end, stored, N, -N, s@TIME, e@TIME."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.reset import parse_reset
from ottla.clients.topics import EARLIEST, LATEST
from ottla.core.types import Offset, TimestampMs, TopicPartition

_WORDS: Final = {"beginning": EARLIEST, "earliest": EARLIEST, "end": LATEST, "latest": LATEST}
HELP: Final = "beginning, end, stored, an offset, -N for the last N, s@MS and e@MS for times (may be given twice)"


class OffsetChoice(NamedTuple):
    """At most one of the first four is set, and says where to begin; without one the command's default applies."""

    special: int | None = None  # EARLIEST or LATEST
    offset: Offset | None = None
    last_count: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    is_stored: bool = False

    @property
    def has_start(self) -> bool:
        return self._replace(end_ms=None) != OffsetChoice()


def parse_offset_choice(values: Sequence[str]) -> OffsetChoice:
    """ValueError says what was expected."""
    choice = OffsetChoice()
    for text in values:
        if text.startswith("e@"):
            choice = choice._replace(end_ms=_number(text, text[2:]))
            continue
        if choice.has_start:
            raise ValueError(f"-o {text}: another -o already says where to begin")
        if text in _WORDS:
            choice = choice._replace(special=_WORDS[text])
        elif text == "stored":
            choice = choice._replace(is_stored=True)
        elif text.startswith("s@"):
            choice = choice._replace(start_ms=_number(text, text[2:]))
        elif text.startswith("-"):
            choice = choice._replace(last_count=_number(text, text[1:]))
        else:
            choice = choice._replace(offset=_number(text, text))
    return choice


def _number(whole: str, digits: str) -> int:
    if not digits.isascii() or not digits.isdecimal():
        raise ValueError(f"-o {whole}: expected {HELP}")
    return int(digits)


def choice_of_reset(text: str, now_ms: TimestampMs) -> OffsetChoice:
    """The same from `auto.offset.reset`; ValueError says what was expected."""
    reset = parse_reset(text)
    if reset.duration_ms is not None:
        return OffsetChoice(start_ms=max(0, now_ms - reset.duration_ms))
    if reset.name in _WORDS:
        return OffsetChoice(special=_WORDS[reset.name])
    raise ValueError(f"auto.offset.reset={text}: expected earliest, latest or by_duration:<ISO 8601 duration>")


def start_offsets(
    consumer: Consumer, topic_partitions: Collection[TopicPartition], choice: OffsetChoice
) -> dict[TopicPartition, Offset]:
    """Where to begin in each partition; a time after the last record means the end."""
    if not topic_partitions:
        return {}
    if choice.offset is not None:
        return dict.fromkeys(topic_partitions, choice.offset)
    if choice.last_count is not None:
        first = consumer.beginning_offsets(topic_partitions)
        last = consumer.end_offsets(topic_partitions)
        return {
            topic_partition: max(first[topic_partition], last[topic_partition] - choice.last_count)
            for topic_partition in topic_partitions
        }
    if choice.start_ms is not None:
        return _offsets_at(consumer, topic_partitions, choice.start_ms)
    return (
        consumer.beginning_offsets(topic_partitions)
        if choice.special == EARLIEST
        else consumer.end_offsets(topic_partitions)
    )


def stop_offsets(
    consumer: Consumer, topic_partitions: Collection[TopicPartition], choice: OffsetChoice
) -> dict[TopicPartition, Offset]:
    """Where to stop in each partition, exclusive; empty without an end."""
    if choice.end_ms is None or not topic_partitions:
        return {}
    return _offsets_at(consumer, topic_partitions, choice.end_ms)


def _offsets_at(
    consumer: Consumer, topic_partitions: Collection[TopicPartition], timestamp_ms: TimestampMs
) -> dict[TopicPartition, Offset]:
    """The first offset at or after a time; the end of a partition without such a record."""
    found = consumer.offsets_for_times(dict.fromkeys(topic_partitions, timestamp_ms))
    offsets = {topic_partition: each.offset for topic_partition, each in found.items() if each is not None}
    without = [topic_partition for topic_partition in topic_partitions if topic_partition not in offsets]
    return offsets | (consumer.end_offsets(without) if without else {})


def nearest_offset(consumer: Consumer, topic_partition: TopicPartition, position: Offset) -> Offset:
    """For a position that the log doesn't have: its first offset if that is greater, else its end."""
    first = consumer.beginning_offsets([topic_partition])[topic_partition]
    return first if position < first else consumer.end_offsets([topic_partition])[topic_partition]
