"""Plans where to move a group's offsets: pure functions of offsets, times and CSV lines, without a cluster."""

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final, NamedTuple

from ottla.core.types import Offset, TimestampMs, TopicPartition

_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?")
_MS_OF_PART: Final = (86_400_000, 3_600_000, 60_000, 1000)


class Ends(NamedTuple):
    """Where the log of a partition begins and ends."""

    first: Offset
    end: Offset


class Move(NamedTuple):
    """One line of a plan; the old offset is None where nothing was committed."""

    topic_partition: TopicPartition
    old_offset: Offset | None
    new_offset: Offset
    note: str


def parse_datetime_ms(text: str) -> TimestampMs:
    """ISO 8601; without a zone it is UTC, as in Kafka's tool. ValueError says what was expected."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text}: expected a time such as 2026-05-01T12:30:00.000 or with +02:00 after it") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def parse_duration_ms(text: str) -> int:
    """ISO 8601, days to seconds. ValueError says what was expected."""
    matched = _DURATION.fullmatch(text.upper())
    if matched is None or not any(matched.groups()):
        raise ValueError(f"{text}: expected a duration such as P7D, PT12H or P1DT2H30M5S")
    parts = zip(matched.groups(), _MS_OF_PART, strict=True)
    return int(sum(Fraction(value) * part_ms for value, part_ms in parts if value is not None))


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """`orders` for all its partitions, or `orders:0,2`. ValueError says what was expected."""
    name, separator, listed = text.partition(":")
    if not separator:
        return name, None
    try:
        partitions = [int(number) for number in listed.split(",")]
    except ValueError:
        raise ValueError(f"{text}: expected TOPIC or TOPIC:0,1,2") from None
    return name, partitions


def read_plan(lines: Iterable[str], group_id: str) -> dict[TopicPartition, Offset]:
    """From `topic,partition,offset` lines, or from the group's lines among `group,topic,partition,offset`.

    Skips a first line with the names of the columns. ValueError names the wrong line.
    """
    plan: dict[TopicPartition, Offset] = {}
    for number, row in enumerate(csv.reader(lines), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and cells[-1].lower() == "offset"):
            continue
        if len(cells) == 4:
            of_group, *cells = cells
            if of_group != group_id:
                continue
        try:
            topic, partition, offset = cells[0], int(cells[1]), int(cells[2])
        except (IndexError, ValueError):
            raise ValueError(f"line {number}: {','.join(row)}: expected topic,partition,offset") from None
        if len(cells) != 3 or partition < 0 or offset < 0:
            raise ValueError(f"line {number}: {','.join(row)}: expected topic,partition,offset")
        plan[TopicPartition(topic, partition)] = offset
    if not plan:
        raise ValueError(f"there is no offset for group {group_id} in it")
    return plan


def plan_moves(
    wanted: Mapping[TopicPartition, Offset],
    committed: Mapping[TopicPartition, Offset],
    ends: Mapping[TopicPartition, Ends],
) -> list[Move]:
    """The moves to the wanted offsets, each limited to its log: a consumer would reset an offset outside."""
    moves = []
    for topic_partition in sorted(wanted):
        offset, note = wanted[topic_partition], ""
        first, end = ends[topic_partition]
        if offset < first:
            note, offset = f"{offset} is before the first offset", first
        elif offset > end:
            note, offset = f"{offset} is after the last offset", end
        moves.append(Move(topic_partition, committed.get(topic_partition), offset, note))
    return moves


def wanted_offsets(
    topic_partitions: Iterable[TopicPartition], choose: Callable[[TopicPartition], Offset | None]
) -> tuple[dict[TopicPartition, Offset], list[TopicPartition]]:
    """The offset that `choose` returns for each partition, and the partitions without one."""
    wanted = {}
    unknown = []
    for topic_partition in topic_partitions:
        offset = choose(topic_partition)
        if offset is None:
            unknown.append(topic_partition)
        else:
            wanted[topic_partition] = offset
    return wanted, unknown


def plan_lines(moves: Iterable[Move]) -> str:
    """In the format of `--from-file`, which Kafka's tool reads too."""
    return "".join(
        f"{move.topic_partition.topic},{move.topic_partition.partition},{move.new_offset}\n" for move in moves
    )
