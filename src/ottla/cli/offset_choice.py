"""Where reading begins and ends, as `-o` says it: beginning, end, stored, N, -N, s@TIME, e@TIME."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from ottla.clients.consumer.consumer import Consumer
from ottla.clients.consumer.reset import parse_reset
from ottla.clients.topics import EARLIEST, LATEST
from ottla.core.types import Offset, TimestampMs, TopicPartition

_WORDS: Final = {"beginning": EARLIEST, "earliest": EARLIEST, "end": LATEST, "latest": LATEST}
HELP: Final = "beginning, end, stored, an offset, -N for the last N, s@MS and e@MS for times (may be given twice)"


class OffsetChoice(NamedTuple):
    """One of the first four says where to begin; none: the command's default."""

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
            raise ValueError(f"-o {text}: where to begin was said already")
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
    """The same said by `auto.offset.reset`; ValueError says what was expected."""
    reset = parse_reset(text)
    if reset.duration_ms is not None:
        return OffsetChoice(start_ms=max(0, now_ms - reset.duration_ms))
    if reset.name in _WORDS:
        return OffsetChoice(special=_WORDS[reset.name])
    raise ValueError(f"auto.offset.reset={text}: expected earliest, latest or by_duration:<ISO 8601 duration>")


def start_offsets(
    consumer: Consumer, places: Collection[TopicPartition], choice: OffsetChoice
) -> dict[TopicPartition, Offset]:
    """Where to begin in each partition; what has no start of its own begins at its end."""
    if not places:
        return {}
    if choice.offset is not None:
        return dict.fromkeys(places, choice.offset)
    if choice.last_count is not None:
        first = consumer.beginning_offsets(places)
        last = consumer.end_offsets(places)
        return {place: max(first[place], last[place] - choice.last_count) for place in places}
    if choice.start_ms is not None:
        return _offsets_at(consumer, places, choice.start_ms)
    return consumer.beginning_offsets(places) if choice.special == EARLIEST else consumer.end_offsets(places)


def stop_offsets(
    consumer: Consumer, places: Collection[TopicPartition], choice: OffsetChoice
) -> dict[TopicPartition, Offset]:
    """The first offset of each partition that is not wanted any more; empty when there is no such end."""
    if choice.end_ms is None or not places:
        return {}
    return _offsets_at(consumer, places, choice.end_ms)


def _offsets_at(
    consumer: Consumer, places: Collection[TopicPartition], timestamp_ms: TimestampMs
) -> dict[TopicPartition, Offset]:
    """The first offset at or after a time; the end of a partition that has nothing so late."""
    found = consumer.offsets_for_times(dict.fromkeys(places, timestamp_ms))
    offsets = {place: each.offset for place, each in found.items() if each is not None}
    without = [place for place in places if place not in offsets]
    return offsets | (consumer.end_offsets(without) if without else {})


def nearest_offset(consumer: Consumer, place: TopicPartition, position: Offset) -> Offset:
    """For a position that the partition doesn't hold: its first offset when that lies later, else its end."""
    first = consumer.beginning_offsets([place])[place]
    return first if position < first else consumer.end_offsets([place])[place]
