"""The generator: the same everywhere, in order, true to its own truth."""

import hashlib
import json
from collections import Counter, defaultdict
from functools import lru_cache
from typing import Any

import pytest

from ottla.pipeline.topics import BY_NAME, TOPIC_NAMES
from ottla.pipeline.traffic.events import ENVELOPE, Event, encode_value, json_line
from ottla.pipeline.traffic.generator import DEFAULT_START_MS, Settings, Traffic, generate
from ottla.pipeline.traffic.scenarios import Hardness
from tests.pipeline.traffic import oracle

DAY_MS = 24 * 3_600_000
EVERY_HARDNESS = list(Hardness)


@lru_cache(maxsize=8)
def run(seed: int, hardness: Hardness, accounts: int = 700, days: int = 5) -> tuple[list[Event], dict[str, Any]]:
    traffic = Traffic(Settings(seed, accounts, days, hardness))
    return list(traffic.events()), traffic.truth()


def test_a_seed_makes_these_very_bytes_on_every_machine() -> None:
    digest = hashlib.sha256()
    for event in generate(Settings(7, 300, 2, Hardness.MEDIUM)):
        digest.update(json_line(event).encode() + b"\n")
    assert digest.hexdigest() == "f862ed44bb5c256d4f3e5add62fc82d8a2b264459f8b7c85ab41ac16c02bc87e"


def test_another_seed_makes_other_events() -> None:
    first = [json_line(event) for event in generate(Settings(1, 50, 1))]
    assert first == [json_line(event) for event in generate(Settings(1, 50, 1))]
    assert first != [json_line(event) for event in generate(Settings(2, 50, 1))]


def test_events_come_in_the_order_of_their_time() -> None:
    times = [event.event_time_ms for event in run(1, Hardness.MEDIUM)[0]]
    assert times == sorted(times)
    assert times[0] >= DEFAULT_START_MS
    assert times[-1] < DEFAULT_START_MS + 5 * DAY_MS + 3_600_000


@pytest.mark.slow
def test_every_event_has_its_envelope_its_payload_and_its_key() -> None:
    events, _ = run(1, Hardness.MEDIUM)
    for event in events:
        topic = BY_NAME[event.topic]
        value = json.loads(encode_value(event))
        assert tuple(value) == (*ENVELOPE, *topic.payload)
        assert event.key == value[topic.key_field]
        assert value["event_type"] == topic.event_type
        assert value["event_time"] == event.event_time_ms
    assert {event.topic for event in events} == set(TOPIC_NAMES)


def test_event_ids_are_unique_also_over_runs() -> None:
    ids = [event.value["event_id"] for event in run(1, Hardness.MEDIUM)[0] if isinstance(event.value, dict)]
    others = [event.value["event_id"] for event in generate(Settings(1, 50, 1)) if isinstance(event.value, dict)]
    assert len({*ids, *others}) == len(ids) + len(others)


def test_accounts_have_numbers_of_their_own() -> None:
    events, truth = run(1, Hardness.EASY)
    phones: dict[str, set[str]] = defaultdict(set)
    for value in [*oracle.values(events, "ml_login_log"), *oracle.values(events, "ml_message_verify_log")]:
        phones[str(value["phone"])].add(str(value["account_id"]))
    assert all(len(accounts) == 1 for accounts in phones.values())
    assert all(phone.startswith("+") and 10 <= len(phone) <= 16 for phone in phones)
    assert sum(phone.startswith("+861") and len(phone) == 14 for phone in phones) > 0.9 * len(phones)
    assert len(truth["accounts"]) == 700


@pytest.mark.parametrize("hardness", EVERY_HARDNESS)
def test_the_truths_totals_are_the_fold_of_the_events(hardness: Hardness) -> None:
    events, truth = run(2, hardness)
    balances: Counter[str] = Counter()
    entries: Counter[str] = Counter()
    steps: dict[tuple[str, str], set[int]] = defaultdict(set)
    done: Counter[str] = Counter()
    for value in oracle.values(events, "ml_obtain_credit_log"):
        balances[str(value["account_id"])] += int(str(value["credit"]))
        entries[str(value["account_id"])] += 1
    for value in oracle.values(events, "ml_task_log"):
        account_id, task_id = str(value["account_id"]), str(value["task_id"])
        of_task = steps[account_id, task_id]
        was_done = len(of_task) == value["steps_total"]
        of_task.add(int(str(value["step"])))
        if len(of_task) == value["steps_total"] and not was_done:
            done[account_id] += 1
            balances[account_id] += int(str(value["reward"]))
            entries[account_id] += 1
    for account_id, expected in truth["accounts"].items():
        seen = (balances[account_id], entries[account_id], done[account_id])
        assert seen == (expected["balance"], expected["entries"], expected["tasks_done"])
    assert truth["events"] == dict(Counter(event.topic for event in events))
    assert truth["event_time"] == {"first_ms": events[0].event_time_ms, "last_ms": events[-1].event_time_ms}


@pytest.mark.slow
@pytest.mark.parametrize("hardness", EVERY_HARDNESS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_switching_devices_are_exactly_those_of_the_truth(seed: int, hardness: Hardness) -> None:
    events, truth = run(seed, hardness)
    labelled = {device["device_id"]: set(device["rules"]) for device in truth["devices"]}
    assert oracle.switching_devices(events) == labelled
    assert {"many_accounts", "ping_pong"} <= {device["kind"] for device in truth["devices"]}


@pytest.mark.slow
@pytest.mark.parametrize("hardness", EVERY_HARDNESS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_inviters_meet_the_rules_that_the_truth_says_and_no_one_else_does(seed: int, hardness: Hardness) -> None:
    events, truth = run(seed, hardness)
    by_rule: dict[str, set[str]] = defaultdict(set)
    for inviter in truth["inviters"]:
        for rule in inviter["rules"]:
            by_rule[rule].add(inviter["account_id"])
        if hardness is Hardness.HARD and not inviter["kind"].startswith("ring_"):
            # Careful cheats meet no rule about groups; sharing a phone or a model once is met to the letter.
            assert inviter["rules"].keys() <= {"shared_device", "shared_fingerprint_ip"}
            assert inviter["decidable_ms"] >= inviter["first_event_ms"]
        else:
            assert inviter["kind"] in inviter["rules"] or inviter["kind"] == "shared_device"
    assert oracle.neighbour_inviters(events) == by_rule["neighbour_numbers"]
    assert oracle.burst_inviters(events) == by_rule["burst"]
    assert oracle.idle_inviters(events) == by_rule["idle_invitees"]
    assert oracle.cycle_members(events) == by_rule["ring_cycle"]


@pytest.mark.parametrize("hardness", EVERY_HARDNESS)
def test_every_kind_of_cheat_and_decoy_is_planted(hardness: Hardness) -> None:
    _, truth = run(1, hardness)
    assert {inviter["kind"] for inviter in truth["inviters"]} == {
        "shared_device",
        "burst",
        "daily_volume",
        "idle_invitees",
        "neighbour_numbers",
        "region_mismatch",
        "ring_cycle",
        "ring_device",
    }
    decoys = truth["decoys"]
    assert {decoy["kind"] for decoy in decoys} == {
        "family_phone",
        "cafe_network",
        "campus_network",
        "resold_device",
        "super_inviter",
    }
    cheats = {inviter["account_id"] for inviter in truth["inviters"]}
    assert not cheats & {account_id for decoy in decoys for account_id in decoy["accounts"]}
    assert not {"burst", "daily_volume", "idle_invitees"} & {rule for decoy in decoys for rule in decoy["rules"]}


def test_wrongly_paid_credits_are_the_invite_bonuses() -> None:
    events, truth = run(1, Hardness.MEDIUM)
    paid: Counter[str] = Counter()
    for value in oracle.values(events, "ml_obtain_credit_log"):
        if value["reason"] == "invite":
            paid[str(value["account_id"])] += int(str(value["credit"]))
    for inviter in truth["inviters"]:
        assert inviter["credits_wrongly_paid"] == paid[inviter["account_id"]] >= 100 * len(inviter["invitees"])


def test_region_mismatch_can_be_seen_from_addresses() -> None:
    events, truth = run(1, Hardness.MEDIUM)
    regions = {network.rsplit(".", 2)[0]: place[2] for network, place in truth["ip_regions"].items()}
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for event in events:
        assert isinstance(event.value, dict)
        seen[str(event.value["account_id"])][regions[str(event.value["ip"]).rsplit(".", 2)[0]]] += 1
    for account_id, cities in seen.items():
        assert cities.most_common(1)[0][0] == truth["accounts"][account_id]["home_city"]
    (inviter,) = (each for each in truth["inviters"] if each["kind"] == "region_mismatch")
    strange = [
        truth["accounts"][each]["phone_city"] != truth["accounts"][each]["home_city"] for each in inviter["invitees"]
    ]
    assert sum(strange) >= 0.8 * len(strange)


@pytest.mark.parametrize(("accounts", "days"), [(1, 1), (5, 1), (20, 1), (60, 2), (300, 1)])
@pytest.mark.parametrize("hardness", EVERY_HARDNESS)
def test_small_runs_work_and_have_all_their_accounts(accounts: int, days: int, hardness: Hardness) -> None:
    traffic = Traffic(Settings(4, accounts, days, hardness))
    events = list(traffic.events())
    truth = traffic.truth()
    assert len(truth["accounts"]) == accounts
    labelled = {device["device_id"]: set(device["rules"]) for device in truth["devices"]}
    assert oracle.switching_devices(events) == labelled
    assert oracle.neighbour_inviters(events) == {
        inviter["account_id"] for inviter in truth["inviters"] if "neighbour_numbers" in inviter["rules"]
    }


def test_settings_out_of_range_are_named() -> None:
    with pytest.raises(ValueError, match="0 accounts"):
        Traffic(Settings(1, 0, 1))
    with pytest.raises(ValueError, match="0 days"):
        Traffic(Settings(1, 1, 0))
