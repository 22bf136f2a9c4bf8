"""What invite_fraud takes from executors to the driver: persons' events as they are, those of use as two moments each.

Slides and exposures are nearly all of the traffic: they are parsed and reduced in one go, in Spark's Python workers.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.detection.intake import LIFE_COLUMNS, LIFE_SCHEMA, LIFE_TOPICS, PERSON_COLUMNS, first_moments
from ottla.pipeline.events.parsing import Parser, ParsingRules, parsed_schema

# Rows of three kinds: a person's event; a moment of use (account and time, no topic); and how much of a topic a task
# has read, with the largest event time of it (no event id).
_ROWS: Final = "rows"
REDUCED: Final = pa.schema(
    [(name, pa.int64() if name == "event_time" else pa.string()) for name in PERSON_COLUMNS] + [(_ROWS, pa.int64())]
)
_PARSED_PERSONS: Final = parsed_schema((*PERSON_COLUMNS, "error_class"))
_PARSED_LIVES: Final = parsed_schema((*LIFE_COLUMNS, "topic", "error_class"))
_LIFE_TOPICS: Final = pa.array(LIFE_TOPICS)


class Reduced(NamedTuple):
    """A batch as the driver sees it."""

    persons: pa.Table  # PERSON_COLUMNS
    moments: pa.Table  # LIFE_SCHEMA
    highs: dict[str, int]  # topic -> largest event time of its sound events
    rows_read: int


class LifeReduction:
    """Over the source's columns; pickled to the workers. `now_ms` of None is the time there."""

    def __init__(self, rules: ParsingRules, *, now_ms: int | None = None) -> None:
        self._persons = Parser(rules, now_ms=now_ms, schema=_PARSED_PERSONS)
        self._lives = Parser(rules, now_ms=now_ms, schema=_PARSED_LIVES)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        moments: list[pa.Table] = []
        read: dict[str, tuple[int, int | None]] = {}
        for parsed in self._parsed(batches):
            topic = parsed.column("topic")[0].as_py()
            is_sound = pc.is_null(parsed.column("error_class"))
            sound = parsed.filter(is_sound)
            rows, high_ms = read.get(topic, (0, None))
            own_ms = pc.max(sound.column("event_time")).as_py()
            known_ms = [each for each in (high_ms, own_ms) if each is not None]
            read[topic] = (rows + parsed.num_rows, max(known_ms, default=None))
            if topic in LIFE_TOPICS:
                moments.append(first_moments(sound.select(LIFE_COLUMNS)))
            elif sound.num_rows:
                yield _in_schema(pa.Table.from_batches([sound]).select(PERSON_COLUMNS))
        if moments:
            yield _in_schema(first_moments(pa.concat_tables(moments)))
        told = [{"topic": topic, "event_time": high_ms, _ROWS: rows} for topic, (rows, high_ms) in read.items()]
        if told:
            yield pa.RecordBatch.from_pylist(told, schema=REDUCED)

    def _parsed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of one topic each. Columns that nobody looks at are not made: for most events that is all but two."""
        for batch in batches:
            is_life = pc.is_in(batch.column("topic"), value_set=_LIFE_TOPICS)
            for parser, is_own in ((self._lives, is_life), (self._persons, pc.invert(is_life))):
                if pc.all(is_own).as_py():
                    yield from parser([batch])
                elif pc.any(is_own).as_py():
                    yield from parser([batch.filter(is_own)])


def taken_apart(rows: pa.Table) -> Reduced:
    """What the tasks of a batch gave together."""
    is_told = pc.is_valid(rows.column(_ROWS))
    told = rows.filter(is_told)
    others = rows.filter(pc.invert(is_told))
    is_moment = pc.is_null(others.column("topic"))
    highs: dict[str, int] = {}
    for topic, high_ms in zip(told.column("topic").to_pylist(), told.column("event_time").to_pylist(), strict=True):
        if high_ms is not None:
            highs[topic] = max(high_ms, highs.get(topic, high_ms))
    return Reduced(
        others.filter(pc.invert(is_moment)).select(PERSON_COLUMNS),
        others.filter(is_moment).select(LIFE_COLUMNS).cast(LIFE_SCHEMA),
        highs,
        pc.sum(told.column(_ROWS)).as_py() or 0,
    )


def _in_schema(rows: pa.Table) -> pa.RecordBatch:
    columns = [
        rows.column(field.name).combine_chunks() if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in REDUCED
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REDUCED)
