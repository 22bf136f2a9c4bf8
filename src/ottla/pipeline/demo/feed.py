"""The demo's traffic: generated days with repeats, late and broken events, each event at its time.

The clock of a run passes a number of days in a number of seconds, and never the wall clock: events of the future are
bad.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

from ottla.pipeline.traffic.events import Event
from ottla.pipeline.traffic.generator import DEFAULT_START_MS, Settings, Traffic
from ottla.pipeline.traffic.noise import NoiseRates, with_noise
from ottla.pipeline.traffic.population import DAY_MS
from ottla.pipeline.traffic.scenarios import Hardness

DAYS: Final = 3
SECONDS: Final = 120.0
# This many accounts send about 2,400 events a second; a shorter run has fewer accounts and the same rate.
_ACCOUNTS: Final = 4000
# With fewer there is no room for a group of every kind of cheat and look-alike.
_ACCOUNTS_MIN: Final = 200
NOISE: Final = NoiseRates(duplicates=0.01, late=0.002, bad=0.0005)
# An endless run begins this far back, and reaches today after about 40 hours; from then on it is real time.
_FOREVER_DAYS_BACK: Final = 3650


def accounts_for(seconds: float) -> int:
    """The number of accounts that keeps the rate of events the same for any length of run."""
    return max(_ACCOUNTS_MIN, round(_ACCOUNTS * seconds / SECONDS))


class Feed:
    """One run's events; `truth` when all are sent."""

    def __init__(self, *, seed: int, accounts: int, seconds: float, is_forever: bool) -> None:
        self.is_forever = is_forever
        self.seconds = seconds
        self.start_ms = _days_back(_FOREVER_DAYS_BACK) if is_forever else DEFAULT_START_MS
        self.event_time_ms = self.start_ms
        self._paced_from_ms = self.start_ms
        self._accounts = accounts
        self._seed = seed
        self._speed = DAYS * DAY_MS / (seconds * 1000)  # of the events' clock against ours
        self._traffic = self._made(seed, self.start_ms)

    @property
    def share(self) -> float | None:
        """The share of the days that has passed, from 0 to 1; None for an endless run."""
        if self.is_forever:
            return None
        return min(1.0, (self.event_time_ms - self.start_ms) / (DAYS * DAY_MS))

    def events(self) -> Iterator[Event]:
        number = 0
        while True:
            yield from self._noisy(self._seed + number)
            if not self.is_forever:
                return
            number += 1
            self._traffic = self._made(self._seed + number, self.start_ms + number * DAYS * DAY_MS)

    def start_clock(self) -> None:
        """From here on events come at their times; earlier ones came ahead of them."""
        self._paced_from_ms = self.event_time_ms

    def early_s(self, event: Event, *, elapsed_s: float) -> float:
        """How long this event still has to wait, `elapsed_s` after the clock started."""
        pace_s = (event.event_time_ms - self._paced_from_ms) / 1000 / self._speed - elapsed_s
        return max(pace_s, event.event_time_ms / 1000 - time.time())

    def truth(self) -> dict[str, Any]:
        """Of the last days that began; complete when their events are sent."""
        return self._traffic.truth()

    def _made(self, seed: int, start_ms: int) -> Traffic:
        return Traffic(Settings(seed, self._accounts, DAYS, Hardness.MEDIUM, start_ms))

    def _noisy(self, seed: int) -> Iterator[Event]:
        traffic = self._traffic
        for event in with_noise(traffic.events(), NOISE, seed=seed, counts=traffic.noise_counts):
            # Late events and repeats are behind.
            self.event_time_ms = max(self.event_time_ms, event.event_time_ms)
            yield event


def _days_back(days: int) -> int:
    """Midnight in China, like DEFAULT_START_MS, a number of days before today."""
    day_ms = DAY_MS
    since = (int(time.time() * 1000) - DEFAULT_START_MS) // day_ms
    return DEFAULT_START_MS + (since - days) * day_ms
