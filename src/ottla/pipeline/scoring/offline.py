"""Runs the detectors over events in memory, batch by batch like the jobs: quality without Spark, broker or store."""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ottla.pipeline.detection.address_table import address_table
from ottla.pipeline.detection.clock import advanced
from ottla.pipeline.detection.device_step import device_step
from ottla.pipeline.detection.fact_reading import Lookup
from ottla.pipeline.detection.facts import Region
from ottla.pipeline.detection.in_memory import MemoryStore
from ottla.pipeline.detection.intake import (
    LIFE_SCHEMA,
    LIFE_TOPICS,
    LOGIN_COLUMNS,
    LOOKED_AT_TOPICS,
    PERSON_COLUMNS,
    Intake,
    logins_of,
)
from ottla.pipeline.detection.invite_fraud import RegionOfNetwork
from ottla.pipeline.detection.invite_step import invite_step, stored_clock
from ottla.pipeline.detection.outcome import Outcome
from ottla.pipeline.detection.phone_region import PhoneRegions
from ottla.pipeline.detection.private_numbers import number_hider
from ottla.pipeline.detection.thresholds import Thresholds, default_thresholds
from ottla.pipeline.events.phone_hashing import plain_number
from ottla.pipeline.scoring.score import Score, pooled, score_alerts
from ottla.pipeline.tables import DEVICE_ALERT, INVITE_ALERT, Table
from ottla.pipeline.topics import LOGIN
from ottla.pipeline.traffic.generator import Settings, Traffic
from ottla.pipeline.traffic.regions import address_table as generated_addresses
from ottla.pipeline.traffic.scenarios import Hardness

_CALLING_CODE: Final = "86"
BATCH_MS: Final = 20 * 60_000


class OfflineAlerts(NamedTuple):
    """Rows of the two tables."""

    device_alerts: list[dict[str, Any]]
    invite_alerts: list[dict[str, Any]]


class Tables(Lookup, Protocol):
    """Where facts and alerts go."""

    def apply(self, alert_table: Table, outcome: Outcome) -> None: ...

    def all_rows(self, table: Table) -> list[dict[str, Any]]: ...


class OfflineDetectors:
    """Both detectors over one store, by default in memory. Feed batches, then `finish`."""

    def __init__(
        self,
        *,
        thresholds: Thresholds | None = None,
        region_of_network: RegionOfNetwork | None = None,
        key: str = "offline",
        regions: PhoneRegions | None = None,
        store: Tables | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self._thresholds = thresholds or default_thresholds()
        self._region_of_network = region_of_network
        regions = regions or PhoneRegions(calling_code=_CALLING_CODE)
        self._intake = Intake(
            hide=number_hider(key, plain=lambda phone: plain_number(phone, calling_code=_CALLING_CODE)),
            region_of=lambda phone: Region(*regions.place_of(phone)[:2]),
        )

    def feed(self, events: Iterable[tuple[str, Mapping[str, Any]]], *, is_final: bool = False) -> None:
        """A batch: topic and value of each event."""
        persons: list[tuple[Any, ...]] = []
        moments: list[tuple[str, int]] = []
        highs: dict[str, int] = {}
        for topic, value in events:
            if topic not in LOOKED_AT_TOPICS:
                continue
            time_ms = value["event_time"]
            highs[topic] = max(time_ms, highs.get(topic, time_ms))
            if topic in LIFE_TOPICS:
                moments.append((value["account_id"], time_ms))
            else:
                persons.append((topic, *(value.get(name) for name in PERSON_COLUMNS[1:])))
        people = _arrow(PERSON_COLUMNS, persons)
        before = stored_clock(self.store)
        after = advanced(before, highs, is_final=is_final)
        logins = people.filter(pc.equal(people.column("topic"), LOGIN.name)).select(LOGIN_COLUMNS)
        switching = device_step(
            self.store, logins_of(logins), self._thresholds.device_switching, detected_ms=after.high_ms
        )
        self.store.apply(DEVICE_ALERT, switching)
        life = (
            pa.Table.from_arrays([pa.array(each) for each in zip(*moments, strict=True)], schema=LIFE_SCHEMA)
            if (moments)
            else LIFE_SCHEMA.empty_table()
        )
        fraud = invite_step(
            self.store,
            self._intake.facts_of(people, life),
            self._thresholds.invite_fraud,
            before=before,
            after=after,
            region_of_network=self._region_of_network,
        )
        self.store.apply(INVITE_ALERT, fraud)

    def finish(self) -> OfflineAlerts:
        """Moves the clock to the end of all topics, like a run with `--once`."""
        self.feed((), is_final=True)
        return OfflineAlerts(self.store.all_rows(DEVICE_ALERT), self.store.all_rows(INVITE_ALERT))


def detect(
    events: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    batch_ms: int = BATCH_MS,
    thresholds: Thresholds | None = None,
    region_of_network: RegionOfNetwork | None = None,
) -> OfflineAlerts:
    """Alerts of a whole run, whose events come roughly in the order of their time.

    A batch covers `batch_ms` of event time, so that an alert is as late as in a stream with such batches.
    """
    detectors = OfflineDetectors(thresholds=thresholds, region_of_network=region_of_network)
    for _, batch in groupby(events, key=lambda event: event[1]["event_time"] // batch_ms):
        detectors.feed(batch)
    return detectors.finish()


def _arrow(names: Iterable[str], rows: list[tuple[Any, ...]]) -> pa.Table:
    schema = pa.schema([(name, pa.int64() if name == "event_time" else pa.string()) for name in names])
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)], schema=schema
    )


def measure(
    seeds: Iterable[int],
    hardness: Hardness,
    *,
    accounts: int,
    days: int,
    has_address_table: bool = False,
    batch_ms: int = BATCH_MS,
    report: Callable[[int, Score], None] = lambda seed, score: None,
) -> Score:
    """One score over all seeds; calls `report` after each run."""
    region_of_network = address_table(generated_addresses()) if has_address_table else None
    scores = []
    for seed in seeds:
        traffic = Traffic(Settings(seed, accounts, days, hardness))
        events = ((event.topic, event.value) for event in traffic.events() if isinstance(event.value, dict))
        alerts = detect(events, batch_ms=batch_ms, region_of_network=region_of_network)
        score = score_alerts(traffic.truth(), alerts.device_alerts, alerts.invite_alerts)
        report(seed, score)
        scores.append(score)
    return pooled(scores)
