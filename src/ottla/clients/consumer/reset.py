"""`auto.offset.reset`: where to begin without a position: earliest, latest, by duration (KIP-1106), or none."""

import re
from typing import Final, NamedTuple

from ottla.core.types import TimestampMs

# The timestamps by which ListOffsets asks for the ends of a log.
EARLIEST_TIMESTAMP: Final[TimestampMs] = -2
LATEST_TIMESTAMP: Final[TimestampMs] = -1

_BY_DURATION: Final = "by_duration:"
_DURATION: Final = (  # compiled when used, which is seldom
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?"
)
_UNIT_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


class ResetStrategy(NamedTuple):
    """With a duration: the first record that is not older than it, or the end if there is none."""

    name: str
    duration_ms: int | None = None

    def timestamp_at(self, wall_ms: TimestampMs) -> TimestampMs | None:
        """The timestamp for ListOffsets; None for `none`."""
        if self.duration_ms is not None:
            return max(0, wall_ms - self.duration_ms)
        return {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}.get(self.name)


EARLIEST: Final = ResetStrategy("earliest")
LATEST: Final = ResetStrategy("latest")
NOWHERE: Final = ResetStrategy("none")


def parse_reset(text: str) -> ResetStrategy:
    """ValueError says what was expected."""
    lowered = text.lower()
    if lowered in ("earliest", "latest", "none"):
        return ResetStrategy(lowered)
    if lowered.startswith(_BY_DURATION):
        return ResetStrategy(_BY_DURATION, parse_duration_ms(text[len(_BY_DURATION) :]))
    raise ValueError("expected earliest, latest, none or by_duration:<ISO 8601 duration>, such as by_duration:PT1H")


def parse_duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration of days to seconds, such as P1DT2H30M or PT0.5S."""
    match = re.fullmatch(_DURATION, text.upper(), re.ASCII)
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is not an ISO 8601 duration, such as PT1H or P7D")
    return int(sum(float(value) * _UNIT_MS[unit] for unit, value in match.groupdict().items() if value is not None))
