"""The job `invite_fraud`: events to facts about who does what and invites whom, and alerts for bonus hunters.

Its clock is event time and is in the store; at its end a run with `--once` moves it to the largest event time. Skips
bad records: `collect` sends them to dead letters.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.detection.address_table import load_address_table
from ottla.pipeline.detection.clock import ClockState, advanced
from ottla.pipeline.detection.facts import InviteBatch, Region
from ottla.pipeline.detection.intake import (
    LIFE_COLUMNS,
    LIFE_SCHEMA,
    LIFE_TOPICS,
    LOOKED_AT_TOPICS,
    PERSON_COLUMNS,
    Intake,
    first_moments,
)
from ottla.pipeline.detection.invite_step import invite_step, stored_clock
from ottla.pipeline.detection.outcome import Outcome
from ottla.pipeline.detection.phone_region import PhoneRegions
from ottla.pipeline.detection.private_numbers import number_hider
from ottla.pipeline.detection.thresholds import load_thresholds
from ottla.pipeline.events.parsing import Parser, ParsingRules, parsed_schema
from ottla.pipeline.events.payloads import ReadCounters, ToDriver, of_kind
from ottla.pipeline.events.phone_hashing import plain_number
from ottla.pipeline.jobs.port import BatchOutcome, JobBatch, JobContext
from ottla.pipeline.jobs.verdicts import Verdicts, figures_of
from ottla.pipeline.retention import kept_from_ms
from ottla.pipeline.stores.port import Batch
from ottla.pipeline.tables import INVITE_ALERT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "invite_fraud"
PERSONS: Final = of_kind(
    pa.schema([(name, pa.int64() if name == "event_time" else pa.string()) for name in PERSON_COLUMNS]), "persons"
)
MOMENTS: Final = of_kind(LIFE_SCHEMA, "moments")
_PARSED_PERSONS: Final = parsed_schema((*PERSON_COLUMNS, "error_class"))
_PARSED_LIVES: Final = parsed_schema((*LIFE_COLUMNS, "topic", "error_class"))
_LIFE_TOPICS: Final = pa.array(LIFE_TOPICS)


def open_job(context: JobContext) -> "InviteFraud":
    return InviteFraud(context)


class InviteFraud:
    """Keeps nothing between batches: the facts behind a verdict, and the clock, are in the store."""

    name = NAME
    topics = LOOKED_AT_TOPICS
    group = f"ottla-{NAME}"

    def __init__(self, context: JobContext) -> None:
        settings = context.settings
        self._store = context.store
        rules = ParsingRules.of(settings)
        self._to_driver = ToDriver(LifeReduction(rules), PERSONS, MOMENTS)
        self.preparation = self._to_driver.preparation
        self._limits = load_thresholds(settings.get_text("detection.thresholds") or None).invite_fraud
        addresses = settings.get_text("detection.address_table")
        self._region_of_network = load_address_table(addresses) if addresses else None
        self._verdicts = Verdicts(context, NAME, INVITE_ALERT)
        regions = PhoneRegions(
            calling_code=rules.phone_calling_code, language=settings.get_text("phones.region_language")
        )
        self._intake = Intake(
            hide=number_hider(
                rules.phone_hash_key, plain=lambda phone: plain_number(phone, calling_code=rules.phone_calling_code)
            ),
            region_of=lambda phone: Region(*regions.place_of(phone)[:2]),
        )

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        (persons, moments), read = self._to_driver.receive(frame)
        before = stored_clock(self._store)
        # Every batch takes a share of each topic, so topics without records in it are idle.
        after = advanced(before, read.highs_ms, idle_topics=before.highs.keys() - read.highs_ms.keys())
        outcome = self._step(self._intake.facts_of(persons, moments), before, after)
        written = self._verdicts.carry_out(outcome, batch.id)
        return BatchOutcome(read.rows_read, written, figures=figures_of(outcome))

    def finish(self, batch: Batch) -> BatchOutcome:
        """Judges inviters whose verdict waits for a moment before the largest event time."""
        before = stored_clock(self._store)
        outcome = self._step(InviteBatch(), before, advanced(before, {}, is_final=True))
        written = self._verdicts.carry_out(outcome, batch)
        return BatchOutcome(0, written, figures=figures_of(outcome))

    def _step(self, facts: InviteBatch, before: ClockState, after: ClockState) -> Outcome:
        return invite_step(
            self._store,
            facts,
            self._limits,
            before=before,
            after=after,
            region_of_network=self._region_of_network,
            alerts_from_ms=kept_from_ms(self._store, INVITE_ALERT.name) or 0,
        )


class LifeReduction:
    """Over the source's columns: persons' events stay as they are, those of use become two moments an account.

    Slides and exposures are nearly all of the traffic: workers parse and reduce them in one go. Pickled to the workers;
    `now_ms` of None is the time there.
    """

    def __init__(self, rules: ParsingRules, *, now_ms: int | None = None) -> None:
        self._persons = Parser(rules, now_ms=now_ms, schema=_PARSED_PERSONS)
        self._lives = Parser(rules, now_ms=now_ms, schema=_PARSED_LIVES)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        moments: list[pa.Table] = []
        counters = ReadCounters()
        for parsed in self._parsed(batches):
            topic = parsed.column("topic")[0].as_py()
            sound = parsed.filter(pc.is_null(parsed.column("error_class")))
            counters.add(topic, parsed.num_rows, pc.max(sound.column("event_time")).as_py())
            if topic in LIFE_TOPICS:
                moments.append(first_moments(sound.select(LIFE_COLUMNS)))
            elif sound.num_rows:
                yield pa.RecordBatch.from_arrays([sound.column(name) for name in PERSON_COLUMNS], schema=PERSONS)
        if moments:
            yield from first_moments(pa.concat_tables(moments)).cast(MOMENTS).to_batches()
        if counters.rows:
            yield counters.as_batch()

    def _parsed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of one topic each. Unused columns are not built: for most events that is all but two."""
        for batch in batches:
            is_life = pc.is_in(batch.column("topic"), value_set=_LIFE_TOPICS)
            for parser, is_own in ((self._lives, is_life), (self._persons, pc.invert(is_life))):
                if pc.all(is_own).as_py():
                    yield from parser([batch])
                elif pc.any(is_own).as_py():
                    yield from parser([batch.filter(is_own)])
