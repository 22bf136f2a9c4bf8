"""The job `phone_region`: the number that an account was last seen with to the place that it is from, in `user_region`.

Numbers of logins and of verifications that succeeded; the newest by event time counts, whatever the order they come in.
What can't be told has the country `ZZ` and is counted. Bad events are left out: they are dead letters of `collect`.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.detection.fact_reading import rows_of
from ottla.pipeline.detection.outcome import arrow_rows
from ottla.pipeline.detection.phone_region import UNKNOWN_COUNTRY, PhoneRegions
from ottla.pipeline.events.parsing import Parser, ParsingRules, ToDriver, parsed_schema
from ottla.pipeline.jobs.port import BatchOutcome, JobBatch, JobContext
from ottla.pipeline.tables import USER_REGION
from ottla.pipeline.topics import LOGIN, VERIFY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "phone_region"
UNKNOWN_REGIONS: Final = "unknown_regions"
_VERIFIED: Final = "ok"
_PARSED: Final = parsed_schema(("topic", "error_class", "event_time", "account_id", "phone", "phone_hash", "outcome"))
# The newest number of an account; and one row without an account, that says how many records a task has read.
NEWEST: Final = pa.schema(
    [("account_id", pa.string()), ("event_time", pa.int64()), ("phone", pa.string()), ("phone_hash", pa.string())]
)


def open_job(context: JobContext) -> "PhoneRegion":
    return PhoneRegion(context)


class PhoneRegion:
    """Holds the places of prefixes that it has met, and nothing of accounts."""

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
        rows = self._to_driver.rows(frame)
        is_count = pc.is_null(rows.column("account_id"))
        rows_read = pc.sum(rows.filter(is_count).column("event_time")).as_py() or 0
        fresh = self._fresh(newest(rows.filter(pc.invert(is_count))))
        unknown = sum(row[1] == UNKNOWN_COUNTRY for row in fresh)
        if fresh:
            self._store.upsert(USER_REGION.name, arrow_rows(USER_REGION, fresh), batch.id)
        return BatchOutcome(rows_read, len(fresh), figures={UNKNOWN_REGIONS: unknown})

    def _fresh(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Rows of USER_REGION for accounts whose newest number is newer than the one that is stored.

        `updated_ms` is the time of the event that it is from, so that a late one never takes a newer one's place.
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
        rows_read = 0
        for parsed in self._parser(batches):
            rows_read += parsed.num_rows
            # A code that was wrong proves nothing about whose number it is.
            counts = pc.or_(
                pc.equal(parsed.column("topic"), LOGIN.name),
                pc.fill_null(pc.equal(parsed.column("outcome"), _VERIFIED), False),
            )
            sound = parsed.filter(pc.and_(counts, pc.is_null(parsed.column("error_class"))))
            found.append(pa.Table.from_batches([sound.select(NEWEST.names)]))
        if found:
            yield from newest(pa.concat_tables(found)).to_batches()
            yield pa.RecordBatch.from_pylist([{"event_time": rows_read}], schema=NEWEST)


def newest(rows: pa.Table) -> pa.Table:
    """Of each account the row with the largest event time; of two at the same time that with the greater hash."""
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
