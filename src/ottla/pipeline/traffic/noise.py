"""Noise: events that are sent twice, late, or broken. The truth of a run stays as it is.

Broken events are additional: each is a copy of a sound one with an id of its own and one fault.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

from ottla.pipeline.traffic.events import Event, encode_value
from ottla.pipeline.traffic.population import HOUR_MS, MINUTE_MS, Dice

# An event is late if it is more than an hour behind: these certainly are.
_LATE_MIN_MS: Final = 65 * MINUTE_MS
_LATE_MAX_MS: Final = 3 * HOUR_MS
_REPEAT_MAX_MS: Final = 2 * HOUR_MS
_FAR_FUTURE_MS: Final = 4_102_444_800_000  # the year 2100
_SEED_MASK: Final = 0x5EED_0F_D15E

BAD_KINDS: Final = ("not_json", "missing_field", "wrong_type", "future", "negative", "unknown_schema_version")


class NoiseRates(NamedTuple):
    """Shares of all events, each from 0 to 1."""

    duplicates: float = 0.0
    late: float = 0.0
    bad: float = 0.0

    @property
    def is_silent(self) -> bool:
        return not any(self)


def with_noise(events: Iterable[Event], rates: NoiseRates, *, seed: int, counts: dict[str, object]) -> Iterator[Event]:
    """The events with noise; `counts` has the number of each kind in the end.

    Delayed events wait in a heap by the event time of their release, so memory grows with the rates. They are late in
    the stream as a whole; in a partition with few events some may not be, as lateness is defined by partition.
    """
    dice = Dice(seed ^ _SEED_MASK)
    held: list[tuple[int, int, Event]] = []
    duplicates = late = order = 0
    bad = dict.fromkeys(BAD_KINDS, 0)
    for event in events:
        now_ms = event.event_time_ms
        order += 1
        if dice.chance(rates.late):
            late += 1
            heappush(held, (now_ms + dice.between(_LATE_MIN_MS, _LATE_MAX_MS), order, event))
        else:
            yield event
            # After the event that they follow: before it they might not be late.
            while held and held[0][0] <= now_ms:
                yield heappop(held)[2]
        if dice.chance(rates.duplicates):
            duplicates += 1
            order += 1
            heappush(held, (now_ms + dice.between(0, _REPEAT_MAX_MS), order, event))
        if dice.chance(rates.bad):
            kind = dice.pick(BAD_KINDS)
            bad[kind] += 1
            yield broken(event, kind, number=order)
    while held:
        yield heappop(held)[2]
    counts.update({"duplicates": duplicates, "late": late, "bad": bad})


def broken(event: Event, kind: str, *, number: int) -> Event:
    """A copy of an event with one fault."""
    assert isinstance(event.value, dict)
    value = dict(event.value)
    value["event_id"] = f"{value['event_id']}-bad-{number:x}"
    if kind == "not_json":
        whole = encode_value(event._replace(value=value))
        return event._replace(value=whole[: len(whole) // 2])
    if kind == "missing_field":
        # An invite without an account belongs to its inviter.
        del value["inviter_id" if "inviter_id" in value else "account_id"]
    elif kind == "wrong_type":
        value["event_time"] = "yesterday"
    elif kind == "future":
        value["event_time"] = _FAR_FUTURE_MS
    elif kind == "negative":
        value["duration_ms" if "duration_ms" in value else "event_time"] = -1
    else:
        value["schema_version"] = 99
    return event._replace(value=value)
