"""Records to events: the source's DataFrame to one with the columns of `frames.PARSED`, a row for each record.

Works on Arrow batches in Spark's Python workers, the same for both connectors. Builds columns for a run of rows of one
topic at a time, with no Python object for a field that the topic doesn't have.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla.core.types import NO_TIMESTAMP_MS
from ottla.pipeline.events.event_decoding import FUTURE, Death, EventDecoder
from ottla.pipeline.events.event_types import PHONE_FIELDS
from ottla.pipeline.events.frames import BODY, DEATH, ENVELOPE, ORIGIN, PARSED, PAYLOAD
from ottla.pipeline.events.payloads import ToDriver
from ottla.pipeline.events.phone_hashing import phone_hasher
from ottla.pipeline.events.preparing import SOURCE_COLUMNS, Preparation
from ottla.pipeline.settings import Settings
from ottla.pipeline.topics import INVITE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The columns that stores take: events with their origin, without raw phone numbers.
EVENTS: Final = tuple(field.name for field in (*ORIGIN, *ENVELOPE, *PAYLOAD, *BODY) if field.name not in PHONE_FIELDS)
# For jobs that need no raw phone numbers: the columns of events and of dead letters.
WITHOUT_PHONES: Final = tuple(field.name for field in PARSED if field.name not in PHONE_FIELDS)

_HASH_BYTES: Final = 16
_DAY_MS: Final = 24 * 3_600_000
_DEATH_COLUMNS: Final = frozenset(field.name for field in DEATH)
_encode: Final = msgspec.json.Encoder().encode


class ParsingRules(NamedTuple):
    """The parser's part of the settings, pickled to the workers."""

    schema_versions: tuple[int, ...]
    future_allowed_ms: int
    phone_hash_key: str
    phone_calling_code: str

    @classmethod
    def of(cls, settings: Settings) -> "ParsingRules":
        return cls(
            tuple(sorted(int(version) for version in settings.get_list("events.schema_versions"))),
            settings.get_int("events.future_allowed_ms"),
            settings.get_text("phones.hash_key"),
            settings.get_text("phones.calling_code"),
        )


def parse(
    frame: "DataFrame", rules: ParsingRules, *, now_ms: int, columns: Sequence[str] = WITHOUT_PHONES
) -> "DataFrame":
    """A row for each record, with these columns of PARSED in PARSED's order.

    Jobs whose rules need phone numbers name `phone` and `invitee_phone`.
    """
    schema = parsed_schema(columns)
    return frame.select(*SOURCE_COLUMNS).mapInArrow(Parser(rules, now_ms=now_ms, schema=schema), schema)


def parsing(rules: ParsingRules, columns: Sequence[str] = WITHOUT_PHONES) -> Preparation:
    """The same as a Preparation, which the source can run where it reads."""
    schema = parsed_schema(columns)
    return Preparation(Parser(rules, now_ms=None, schema=schema), schema)


def parsed_to_driver(rules: ParsingRules, columns: Sequence[str] = WITHOUT_PHONES) -> ToDriver:
    """The same for a job whose rows all go to the driver."""
    schema = parsed_schema(columns)
    return ToDriver(Parser(rules, now_ms=None, schema=schema), to_arrow_schema(schema))


def parsed_schema(columns: Sequence[str]) -> StructType:
    """These columns of PARSED, in PARSED's order."""
    wanted = StructType([field for field in PARSED if field.name in set(columns)])
    assert len(wanted) == len(columns), f"of {columns}, only {wanted.names} are columns of PARSED"
    return wanted


class Parser:
    """Pickled to the workers; there it makes its decoders with the first batch. `now_ms` of None is the time there."""

    def __init__(self, rules: ParsingRules, *, now_ms: int | None, schema: StructType) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._names = schema.names
        self._schema = to_arrow_schema(schema)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topics = _Topics(self._rules)
        now_ms = time.time_ns() // 1_000_000 if self._now_ms is None else self._now_ms
        for batch in batches:
            for start, stop in _runs(batch.column("topic")):
                yield self._parse(batch.slice(start, stop - start), topics, now_ms)

    def parse_batch(self, batch: pa.RecordBatch) -> pa.Table:
        """Of one Arrow batch, for callers without Spark."""
        return pa.Table.from_batches(list(self([batch])), self._schema)

    def _parse(self, batch: pa.RecordBatch, topics: "_Topics", now_ms: int) -> pa.RecordBatch:
        decoder = topics.decoder(batch.column("topic")[0].as_py())
        timestamps_ms = _milliseconds(batch.column("timestamp"))
        sound, extras, deaths = self._decode(decoder, batch.column("value").to_pylist(), timestamps_ms, now_ms)
        built = _Columns(decoder, sound, extras, topics.hash_phone)
        positions = None
        if deaths:
            positions = np.zeros(batch.num_rows, dtype=np.int64)
            dead_rows = np.fromiter(deaths, dtype=np.int64, count=len(deaths))
            is_dead = np.zeros(batch.num_rows, dtype=bool)
            is_dead[dead_rows] = True
            positions[~is_dead] = np.arange(len(sound))
            positions = pa.array(positions, mask=is_dead)
        arrays = []
        for name, type_ in zip(self._names, self._schema.types, strict=True):
            if name in ("topic", "partition", "offset"):
                array = batch.column(name).cast(type_)
            elif name == "timestamp_ms":
                array = pa.array(timestamps_ms, type_)
            elif name in _DEATH_COLUMNS:
                array = _death_column(name, type_, batch, deaths)
            else:
                array = built.column(name, type_)
                if positions is not None:
                    array = array.take(positions)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _decode(
        self, decoder: EventDecoder, values: list[bytes | None], timestamps_ms: "np.ndarray[Any, Any]", now_ms: int
    ) -> tuple[list[Any], list[str | None] | None, dict[int, Death]]:
        """Sound events, their unknown fields if any event has some, and the deaths by row."""
        deaths: dict[int, Death] = {}
        extras: list[str | None] | None = None
        sound: list[Any] = []
        rows: list[int] = []
        decode_fast = decoder.decode_fast
        append, append_row = sound.append, rows.append
        for row, value in enumerate(values):
            try:
                append(decode_fast(value))  # type: ignore[arg-type]  # None raises as well
            except (msgspec.MsgspecError, ValueError, RecursionError, TypeError):
                decoded = decoder.decode(value)
                if isinstance(decoded, Death):
                    deaths[row] = decoded
                    continue
                append(decoded.event)
                if decoded.extra is not None:
                    extras = (extras or []) + [None] * (len(sound) - 1 - len(extras or ())) + [decoded.extra]
            append_row(row)
        if extras is not None:
            extras += [None] * (len(sound) - len(extras))
        limits_ms = np.where(timestamps_ms == NO_TIMESTAMP_MS, now_ms, np.minimum(timestamps_ms, now_ms)) + min(
            self._rules.future_allowed_ms, 1 << 62
        )
        event_times_ms = np.fromiter(map(attrgetter("event_time"), sound), dtype=np.int64, count=len(sound))
        is_future = event_times_ms > limits_ms[rows]
        if is_future.any():
            for index in np.flatnonzero(is_future):
                deaths[rows[index]] = Death(FUTURE, self._future_reason(event_times_ms[index], limits_ms[rows[index]]))
            kept = np.flatnonzero(~is_future)
            sound = [sound[index] for index in kept]
            extras = None if extras is None else [extras[index] for index in kept]
        return sound, extras, deaths

    def _future_reason(self, event_time_ms: int, limit_ms: int) -> str:
        """In days: the time itself might be a phone number in the wrong field."""
        written_ms = limit_ms - min(self._rules.future_allowed_ms, 1 << 62)
        return f"event_time lies {(event_time_ms - written_ms) // _DAY_MS:,} days after the record was written"


class _Topics:
    """The decoders of a worker's task, and the hashing that they share."""

    def __init__(self, rules: ParsingRules) -> None:
        self.hash_phone = phone_hasher(rules.phone_hash_key, calling_code=rules.phone_calling_code)
        self._versions = rules.schema_versions
        self._decoders: dict[str, EventDecoder] = {}

    def decoder(self, topic: str) -> EventDecoder:
        decoder = self._decoders.get(topic)
        if decoder is None:
            decoder = EventDecoder(topic, schema_versions=self._versions, hash_phone=self.hash_phone)
            self._decoders[topic] = decoder
        return decoder


class _Columns:
    """The columns of sound events of one topic. Brings events into their canonical form first."""

    def __init__(
        self,
        decoder: EventDecoder,
        events: list[Any],
        extras: list[str | None] | None,
        hash_phone: Callable[[str], str],
    ) -> None:
        self._events = events
        self._extras = extras
        self._fields = decoder.type.fields
        self._event_type = decoder.type.topic.event_type
        self._phones: dict[str, list[str | None]] = {}
        if decoder.type.topic is INVITE:
            for event in events:
                event.account_id = event.account_id or event.inviter_id
        if "slot" in self._fields:
            for event in events:
                if event.slot.__class__ is int:
                    event.slot = str(event.slot)
        # Whoever tries all numbers could read one out of a plain hash of a body that holds it.
        for name in decoder.type.phone_fields:
            self._phones[name] = numbers = list(map(attrgetter(name), events))
            for event, number in zip(events, numbers, strict=True):
                if number is not None:
                    setattr(event, name, hash_phone(number))

    def column(self, name: str, type_: pa.DataType) -> pa.Array:
        if name == "event_type":
            return pa.repeat(pa.scalar(self._event_type, type_), len(self._events))
        if name == "body_hash":
            return self._body_hashes.cast(type_)
        if name == "extra":
            return pa.nulls(len(self._events), type_) if self._extras is None else pa.array(self._extras, type_)
        if name in self._phones:
            return pa.array(self._phones[name], type_)
        for raw, hashed in PHONE_FIELDS.items():
            if name == hashed:
                name = raw
        if name not in self._fields:
            return pa.nulls(len(self._events), type_)
        return pa.array(list(map(attrgetter(name), self._events)), type_)

    @cached_property
    def _body_hashes(self) -> pa.Array:
        encode, hash_ = _encode, blake2b
        if self._extras is None:
            digests = [hash_(encode(event), digest_size=_HASH_BYTES).digest() for event in self._events]
        else:
            digests = [
                hash_(encode(event) + (extra or "").encode(), digest_size=_HASH_BYTES).digest()
                for event, extra in zip(self._events, self._extras, strict=True)
            ]
        # All have one length, so the array is built from one buffer, not from a string for each event.
        digits = b"".join(digests).hex().encode()
        offsets = np.arange(len(digests) + 1, dtype=np.int32) * (2 * _HASH_BYTES)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(digits)]
        return pa.Array.from_buffers(pa.string(), len(digests), buffers)


def _death_column(name: str, type_: pa.DataType, batch: pa.RecordBatch, deaths: dict[int, Death]) -> pa.Array:
    if not deaths:
        return pa.nulls(batch.num_rows, type_)
    if name in ("key", "value"):
        kept = [row if row in deaths else None for row in range(batch.num_rows)]
        return batch.column(name).cast(type_).take(pa.array(kept, pa.int64()))
    index = 0 if name == "error_class" else 1
    return pa.array([deaths[row][index] if row in deaths else None for row in range(batch.num_rows)], type_)


def _runs(topics: pa.Array) -> Iterator[tuple[int, int]]:
    """Ranges of neighbouring rows with the same topic; most often there is one."""
    if len(topics) == 0:
        return
    ends = pc.run_end_encode(topics).run_ends.to_pylist()
    start = 0
    for end in ends:
        yield start, end
        start = end


def _milliseconds(timestamps: pa.Array) -> "np.ndarray[Any, Any]":
    """Spark's timestamps are microseconds."""
    return np.asarray(timestamps.cast(pa.timestamp("us", timestamps.type.tz)).cast(pa.int64())) // 1000
