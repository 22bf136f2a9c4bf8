"""The detectors' limits and weights: declared here by type and range, their values and reasons in thresholds.toml.

A user's file may change some of them; the error names everything that is wrong with it. All numbers of the detectors
are here.
"""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints


class DeviceThresholds(NamedTuple):
    many_accounts: int
    many_accounts_span_ms: int
    ping_pong_returns: int
    ping_pong_span_ms: int


class InviteThresholds(NamedTuple):
    alert_score: float
    campaign_gap_ms: int
    shared_device_invitees: int
    shared_device_weight: float
    lone_device_weight: float
    lone_device_wait_ms: int
    shared_fingerprint_invitees: int
    shared_fingerprint_share: float
    shared_fingerprint_share_honest: float
    shared_fingerprint_weight: float
    some_fingerprint_weight: float
    burst_invites: int
    burst_span_ms: int
    daily_invites: int
    speed_weight: float
    group_invitees: int
    honest_prior: int
    idle_span_ms: int
    idle_share: float
    idle_share_honest: float
    idle_weight: float
    signs_of_life: int
    neighbours: int
    neighbour_distance: int
    neighbour_weight: float
    neighbour_pair_weight: float
    neighbour_share: float
    region_share: float
    region_share_honest: float
    region_weight: float
    region_one_province_weight: float
    region_one_province_share_honest: float
    ring_accounts: int
    ring_weight: float
    cycle_length_max: int


class Thresholds(NamedTuple):
    device_switching: DeviceThresholds
    invite_fraud: InviteThresholds


class ThresholdError(Exception):
    """The problems of a file of thresholds, a line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


_SECTIONS: Final[Mapping[str, type[DeviceThresholds] | type[InviteThresholds]]] = {
    "device_switching": DeviceThresholds,
    "invite_fraud": InviteThresholds,
}
# Smallest values that mean something; all others are at least 1.
_AT_LEAST: Final = {"many_accounts": 2, "neighbours": 2, "shared_device_invitees": 1, "ring_accounts": 2}
# A pair of numbers that a fact keeps blocks of: see private_numbers.
_AT_MOST: Final = {"neighbour_distance": 31, "signs_of_life": 2, "cycle_length_max": 64}


@lru_cache(maxsize=1)
def default_thresholds() -> Thresholds:
    """The package's values."""
    return _checked(_shipped(), {})


def load_thresholds(path: str | Path | None) -> Thresholds:
    """The package's values, overridden by those of a file. ThresholdError names every problem."""
    if path is None:
        return default_thresholds()
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ThresholdError([f"thresholds {path} can't be read: {error.strerror}"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ThresholdError([f"thresholds {path} are not TOML: {error}"]) from error
    try:
        return _checked(_shipped(), given)
    except ThresholdError as error:
        raise ThresholdError([f"thresholds {path}:", *error.problems]) from error


def reasons() -> dict[str, str]:
    """`section.name` -> why the value is what it is."""
    return {
        f"{section}.{name}": entry["reason"]
        for section, entries in _shipped().items()
        for name, entry in entries.items()
    }


def _shipped() -> dict[str, Any]:
    return tomllib.loads(files("ottla.pipeline.detection").joinpath("thresholds.toml").read_text(encoding="utf-8"))


def _checked(shipped: Mapping[str, Any], given: Mapping[str, Any]) -> Thresholds:
    problems: list[str] = []
    values: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for source in (shipped, given):
        for section, entries in source.items():
            if section not in _SECTIONS or not isinstance(entries, dict):
                problems.append(f"{section}: no such table{_nearest(section, list(_SECTIONS))}")
                continue
            types = get_type_hints(_SECTIONS[section])
            for name, entry in entries.items():
                problem = _problem(name, entry, types)
                if problem is None:
                    values[section][name] = entry["value"]
                else:
                    problems.append(f"{section}.{name}: {problem}")
    for section, declared in _SECTIONS.items():
        problems.extend(f"{section}.{name}: missing" for name in declared._fields if name not in values[section])
    if not problems:
        found = Thresholds(DeviceThresholds(**values["device_switching"]), InviteThresholds(**values["invite_fraud"]))
        problems = _contradictions(found.invite_fraud)
        if not problems:
            return found
    raise ThresholdError(problems)


def _problem(name: str, entry: Any, types: Mapping[str, type]) -> str | None:
    if name not in types:
        return f"no such threshold{_nearest(name, list(types))}"
    if not isinstance(entry, dict) or "value" not in entry:
        return "expected a table with `value`"
    value = entry["value"]
    if types[name] is int:
        low, high = _AT_LEAST.get(name, 1), _AT_MOST.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            return f"expected a whole number, not {value!r}"
        if value < low or (high is not None and value > high):
            return f"expected {low} or more{'' if high is None else f', {high} at most'}, not {value}"
    elif not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        return f"expected a number from 0 to 1, not {value!r}"
    return None


def _contradictions(limits: InviteThresholds) -> list[str]:
    """What must hold between values for the descriptions of the rules to stay true."""
    problems = []
    for name, share, honest in (
        ("idle", limits.idle_share, limits.idle_share_honest),
        ("region", limits.region_share, limits.region_share_honest),
        ("shared_fingerprint", limits.shared_fingerprint_share, limits.shared_fingerprint_share_honest),
    ):
        if honest >= share:
            problems.append(f"invite_fraud.{name}_share_honest: expected less than {name}_share = {share}")
    if limits.speed_weight >= limits.alert_score:
        problems.append("invite_fraud.speed_weight: speed alone must stay below alert_score")
    return problems


def _nearest(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
