"""Invite fraud: each rule at its limit, honest look-alikes, and evidence that adds up."""

from typing import Any

import pytest

from ottla.pipeline.detection.facts import DAY_MS, Invite, Life, Region, Sighting
from ottla.pipeline.detection.invite_fraud import InviterFacts, invite_alerts
from ottla.pipeline.detection.private_numbers import UNKNOWN_NUMBER, number_hider
from ottla.pipeline.detection.thresholds import default_thresholds

LIMITS = default_thresholds().invite_fraud
START_MS = 1_756_656_000_000
LATER_MS = START_MS + 3 * DAY_MS
MINUTE_MS = 60_000
BEIJING, SICHUAN, HUNAN = Region("CN", "Beijing"), Region("CN", "Sichuan"), Region("CN", "Hunan")
hide = number_hider("a key of some length", plain=str)


class Case:
    """One inviter and what is known of those he invited: by default alive, on phones and in places of their own."""

    def __init__(self) -> None:
        self.invites: list[Invite] = []
        self.sightings: dict[str, set[Sighting]] = {"me": {Sighting("me", "my-phone", "my-model", "10.0.0")}}
        self.lives: dict[str, Life] = {}
        self.ancestors: set[str] = set()
        self.rings: list[frozenset[str]] = []

    def invite(
        self,
        name: str,
        minutes: float,
        *,
        is_idle: bool = False,
        device: str | None = None,
        model: str | None = None,
        network: str | None = None,
        phone: str | None = None,
        region: Region = BEIJING,
    ) -> "Case":
        time_ms = START_MS + int(minutes * MINUTE_MS)
        number = UNKNOWN_NUMBER if phone is None else hide(phone)
        self.invites.append(Invite(time_ms, f"i-{name}", "me", name, number, region))
        self.sightings[name] = {
            Sighting(name, device or f"{name}-phone", model or f"{name}-model", network or f"20.{len(self.invites)}.0")
        }
        if not is_idle:
            self.lives[name] = Life(time_ms + MINUTE_MS, time_ms + 2 * MINUTE_MS)
        return self

    def judged(self, *, clock_ms: int = LATER_MS, **given: Any) -> dict[str, float] | None:
        """Rule -> weight of the one alert, or None."""
        facts = InviterFacts(
            "me", self.invites, self.sightings, {"me": {BEIJING}}, self.lives, self.ancestors, self.rings
        )
        alerts = invite_alerts(facts, LIMITS, clock_ms=clock_ms, **given)
        assert len(alerts) <= 1
        return {each.rule: each.weight for each in alerts[0].verdict.evidence} if alerts else None


def test_two_invitees_on_the_inviters_phone_are_enough() -> None:
    assert Case().invite("a", 0, device="my-phone").invite("b", 600, device="my-phone").judged() == {
        "shared_device": 0.8
    }


def test_one_invitee_on_the_inviters_phone_who_uses_the_app_is_of_the_family() -> None:
    assert Case().invite("child", 0, device="my-phone").judged() is None


def test_one_invitee_on_the_inviters_phone_who_does_nothing_is_enough_after_an_hour() -> None:
    case = Case().invite("fake", 0, device="my-phone", is_idle=True)
    assert case.judged(clock_ms=START_MS + 59 * MINUTE_MS) is None
    assert case.judged(clock_ms=START_MS + 60 * MINUTE_MS) == {"shared_device": 0.8}


def test_speed_alone_is_never_enough() -> None:
    case = Case()
    for number in range(60):
        case.invite(f"u{number}", number / 20)
    assert case.judged() is None


def test_speed_and_idle_invitees_are_enough_together() -> None:
    case = Case()
    for number in range(8):
        case.invite(f"u{number}", number / 2, is_idle=number < 5)
    assert case.judged() == {"burst": 0.3, "idle_invitees": pytest.approx(0.273, abs=0.001)}


def test_four_of_five_idle_are_enough_once_their_day_is_over() -> None:
    case = Case()
    for number in range(5):
        case.invite(f"u{number}", number * 60, is_idle=number < 4)
    assert case.judged(clock_ms=START_MS + 4 * 60 * MINUTE_MS + DAY_MS - 1) is None
    assert case.judged(clock_ms=START_MS + 4 * 60 * MINUTE_MS + DAY_MS) == {"idle_invitees": 0.5}


def test_half_of_them_idle_are_not_enough() -> None:
    case = Case()
    for number in range(10):
        case.invite(f"u{number}", number * 60, is_idle=number < 5)
    assert case.judged() is None


def test_one_exposure_is_no_life_two_signs_are() -> None:
    case = Case()
    for number in range(5):
        case.invite(f"u{number}", number * 60, is_idle=True)
        case.lives[f"u{number}"] = Life(START_MS + number, None)
    assert case.judged() == {"idle_invitees": 0.5}
    case.lives["u0"] = case.lives["u1"] = Life(START_MS, START_MS + 1)
    assert case.judged() is None


def test_three_numbers_within_twenty_are_enough_and_two_are_not() -> None:
    case = Case().invite("a", 0, phone="+8613000100010").invite("b", 60, phone="+8613000100030")
    case.invite("c", 120, phone="+8613000109999")
    assert case.judged() is None
    assert case.invite("d", 180, phone="+8613000100020").judged() == {"neighbour_numbers": 0.5}


def test_three_near_numbers_among_many_friends_are_chance() -> None:
    case = Case()
    for number in range(20):
        phone = f"+86130001{number * 500:05d}" if number >= 3 else f"+8613000199{number:03d}"
        case.invite(f"u{number}", number * 60, phone=phone)
    assert case.judged() is None


def test_a_reset_phone_is_told_by_model_and_network_a_campus_is_not() -> None:
    case = Case()
    for number in range(4):
        case.invite(f"u{number}", number * 60, model="my-model", network="10.0.0")
    assert case.judged() == {"shared_fingerprint_ip": 0.5}
    for number in range(4, 10):
        case.invite(f"u{number}", number * 60, network="10.0.0")
    assert case.judged() is None


def test_numbers_of_one_far_province_used_where_the_inviter_is_are_enough() -> None:
    case = Case()
    for number in range(6):
        case.invite(f"u{number}", number * 60, region=SICHUAN if number else BEIJING, network="10.0.7")
    assert case.judged() == {"region_mismatch": 0.5}


def test_friends_who_live_elsewhere_are_no_evidence() -> None:
    case = Case()
    provinces = [Region("CN", name) for name in ("Hunan", "Hubei", "Henan", "Hebei", "Anhui", "Fujian")]
    for number in range(24):
        case.invite(f"u{number}", number / 10, region=provinces[number % 6])
    assert case.judged() is None


def test_with_a_table_of_addresses_numbers_are_held_against_where_each_appears() -> None:
    def table(network: str) -> Region | None:
        return {"10": HUNAN, "30": SICHUAN}.get(network.partition(".")[0])

    away, at_home = Case(), Case()
    for number in range(6):
        away.invite(f"u{number}", number * 60, region=SICHUAN, network="10.9.9")
        at_home.invite(f"u{number}", number * 60, region=SICHUAN, network="30.9.9")
    assert away.judged(region_of_network=table) == {"region_mismatch": 0.5}
    assert at_home.judged(region_of_network=table) is None


def test_rings_are_enough() -> None:
    cycle = Case().invite("a", 0)
    cycle.ancestors = {"a"}
    assert cycle.judged() == {"ring_cycle": 0.8}
    ring = Case().invite("a", 0)
    ring.rings = [frozenset({"me", "a", "b", "c"})]
    assert ring.judged() == {"ring_device": 0.8}
    ring.rings = [frozenset({"me", "a", "b"})]
    assert ring.judged() is None


def test_several_rules_just_missed_are_enough_together() -> None:
    case = Case()
    for number in range(8):
        phone = f"+861300010000{number}" if number < 2 else None
        case.invite(f"u{number}", number * 300, phone=phone, is_idle=number < 6)
    assert case.judged() == {"idle_invitees": pytest.approx(0.364, abs=0.001), "neighbour_numbers": 0.2}


def test_old_friends_do_not_hide_new_fakes() -> None:
    case = Case()
    for number in range(30):
        case.invite(f"friend{number}", number * 30)
    for number in range(6):
        case.invite(f"fake{number}", 5 * 24 * 60 + number * 60, is_idle=True)
    facts = InviterFacts("me", case.invites, case.sightings, {}, case.lives, (), ())
    (alert,) = invite_alerts(facts, LIMITS, clock_ms=START_MS + 9 * DAY_MS)
    assert alert.invitees == [f"fake{number}" for number in range(6)]
    assert "scores 0.50: 6 of 6 invitees idle (0.5)" in alert.why
