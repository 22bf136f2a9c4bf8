"""The job `phone_region`: for each account the place that its newest phone number is from, in `user_region`.

It takes numbers of logins and of successful verifications; the newest by event time counts, in whatever order they
come. A number of unknown origin has the country `ZZ` and is counted. Skips bad records: `collect` sends them to dead
letters.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.detection.fact_reading import rows_of
from ottla.pipeline.detection.outcome import arrow_rows
from ottla.pipeline.detection.phone_region import UNKNOWN_COUNTRY, PhoneRegions
from ottla.pipeline.events.parsing import Parser, ParsingRules, parsed_schema
from ottla.pipeline.events.payloads import ReadCounters, ToDriver
from ottla.pipeline.jobs.port import BatchOutcome, JobBatch, JobContext
from ottla.pipeline.tables import USER_REGION
from ottla.pipeline.topics import LOGIN, VERIFY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "phone_region"
UNKNOWN_REGIONS: Final = "unknown_regions"
_VERIFIED: Final = "ok"
_PARSED: Final = parsed_schema(("topic", "error_class", "event_time", "account_id", "phone", "phone_hash", "outcome"))
# The newest number of an account.
NEWEST: Final = pa.schema(
    [("account_id", pa.string()), ("event_time", pa.int64()), ("phone", pa.string()), ("phone_hash", pa.string())]
)


def open_job(context: JobContext) -> "PhoneRegion":
    return PhoneRegion(context)


class PhoneRegion:
    """Caches the places of prefixes, and keeps nothing about accounts."""

    name = NAME
    topics = (LOGIN.name, VERIFY.name)
    group = f"ottla-{NAME}"

    def __init__(self, context: JobContext) -> None:
        self._store = context.store
        rules = ParsingRules.of(context.settings)
        self._to_driver = ToDriver(NewestNumbers(rules), NEWEST)
        self.preparation = self._to_driver.preparation
        self._regions = PhoneRegions(
            calling_code=rules.phone_calling_code, language=context.settings.get_text("phones.region_language")
        )

    def run_batch(self, frame: "DataFrame", batch: JobBatch) -> BatchOutcome:
        (rows,), read = self._to_driver.receive(frame)
        fresh = self._fresh(newest(rows))
        unknown = sum(row[1] == UNKNOWN_COUNTRY for row in fresh)
        if fresh:
            self._store.upsert(USER_REGION.name, arrow_rows(USER_REGION, fresh), batch.id)
        return BatchOutcome(read.rows_read, len(fresh), figures={UNKNOWN_REGIONS: unknown})

    def _fresh(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Rows of USER_REGION for accounts whose newest number is newer than the one that is stored.

        `updated_ms` is the time of the event, so that a late event never replaces a newer one.
        """
        accounts = rows.column("account_id").to_pylist()
        stored = {row[0]: row for row in rows_of(self._store, USER_REGION, ((account,) for account in accounts))}
        fresh: list[tuple[Any, ...]] = []
        for account_id, time_ms, phone, phone_hash in zip(
            accounts, *(rows.column(name).to_pylist() for name in rows.column_names[1:]), strict=True
        ):
            before = stored.get(account_id)
            if before is not None and (before[5], before[4]) >= (time_ms, phone_hash):
                continue
            fresh.append((account_id, *self._regions.place_of(phone), phone_hash, time_ms))
        return fresh


class NewestNumbers:
    """Over the source's columns; pickled to the workers. `now_ms` of None is the time there."""

    def __init__(self, rules: ParsingRules, *, now_ms: int | None = None) -> None:
        self._parser = Parser(rules, now_ms=now_ms, schema=_PARSED)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: list[pa.Table] = []
        counters = ReadCounters()
        for parsed in self._parser(batches):
            counters.add(parsed.column("topic")[0].as_py(), parsed.num_rows)
            # A wrong code proves nothing about the owner of the number.
            counts = pc.or_(
                pc.equal(parsed.column("topic"), LOGIN.name),
                pc.fill_null(pc.equal(parsed.column("outcome"), _VERIFIED), False),
            )
            sound = parsed.filter(pc.and_(counts, pc.is_null(parsed.column("error_class"))))
            found.append(pa.Table.from_batches([sound.select(NEWEST.names)]))
        if found:
            yield from newest(pa.concat_tables(found)).to_batches()
            yield counters.as_batch()


def newest(rows: pa.Table) -> pa.Table:
    """For each account the row with the largest event time; of two at the same time the one with the greater hash."""
    ordered = rows.cast(NEWEST).sort_by(
        [("account_id", "ascending"), ("event_time", "descending"), ("phone_hash", "descending")]
    )
    accounts = ordered.column("account_id").combine_chunks()
    if len(accounts) < 2:
        return ordered
    is_first = pa.concat_arrays(
        [pa.array([True]), pc.not_equal(accounts.slice(1), accounts.slice(0, len(accounts) - 1))]
    )
    return ordered.filter(is_first)
