"""The job `invite_fraud`: who does what and invites whom to facts, and alerts for those who invite for the bonus.

Its clock is event time and lies in the store; a run of `--once` ends by taking it to the largest event time. Bad events
are left out: they are the dead letters of `collect`.
"""

from typing import TYPE_CHECKING, Final

from ottla.pipeline.detection.address_table import load_address_table
from ottla.pipeline.detection.clock import ClockState, advanced
from ottla.pipeline.detection.facts import InviteBatch, Region
from ottla.pipeline.detection.intake import LOOKED_AT_TOPICS, Intake
from ottla.pipeline.detection.invite_step import invite_step, stored_clock
from ottla.pipeline.detection.outcome import Outcome
from ottla.pipeline.detection.phone_region import PhoneRegions
from ottla.pipeline.detection.private_numbers import number_hider
from ottla.pipeline.detection.thresholds import load_thresholds
from ottla.pipeline.events.parsing import ParsingRules, ToDriver
from ottla.pipeline.events.phone_hashing import plain_number
from ottla.pipeline.jobs.life_reduction import REDUCED, LifeReduction, taken_apart
from ottla.pipeline.jobs.port import BatchOutcome, JobBatch, JobContext
from ottla.pipeline.jobs.verdicts import Verdicts, figures_of
from ottla.pipeline.retention import kept_from_ms
from ottla.pipeline.stores.port import Batch
from ottla.pipeline.tables import INVITE_ALERT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "invite_fraud"


def open_job(context: JobContext) -> "InviteFraud":
    return InviteFraud(context)


class InviteFraud:
    """Holds nothing between batches: what a verdict rests on, the clock too, is in the store."""

    name = NAME
    topics = LOOKED_AT_TOPICS
    group = f"ottla-{NAME}"

    def __init__(self, context: JobContext) -> None:
        settings = context.settings
        self._store = context.store
        rules = ParsingRules.of(settings)
        self._to_driver = ToDriver(LifeReduction(rules), REDUCED)
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
        reduced = taken_apart(self._to_driver.rows(frame))
        before = stored_clock(self._store)
        # Topics of which the batch has nothing had nothing to read, as every batch takes a share of each: idle.
        after = advanced(before, reduced.highs, idle_topics=before.highs.keys() - reduced.highs.keys())
        outcome = self._step(self._intake.facts_of(reduced.persons, reduced.moments), before, after)
        written = self._verdicts.carry_out(outcome, batch.id)
        return BatchOutcome(reduced.rows_read, written, figures=figures_of(outcome))

    def finish(self, batch: Batch) -> BatchOutcome:
        """Whoever waits for a moment before the largest event time is judged now."""
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
