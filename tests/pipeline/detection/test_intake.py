"""From events to facts: use shrinks to two moments an account, persons to what rules ask for."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.detection.facts import Invite, Life, Login, Place, Region, Sighting
from ottla.pipeline.detection.intake import (
    LIFE_SCHEMA,
    LOGIN_COLUMNS,
    PERSON_COLUMNS,
    Intake,
    first_moments,
    lives_of,
    logins_of,
    reduce_moments,
)
from ottla.pipeline.detection.networks import network_of, wider
from ottla.pipeline.detection.private_numbers import UNKNOWN_NUMBER, PrivateNumber
from ottla.pipeline.topics import INVITE, LOGIN, VERIFY

EVENTS = st.lists(st.tuples(st.one_of(st.none(), st.sampled_from("abcd")), st.integers(0, 9)), max_size=40)
NUMBER = PrivateNumber("block", "next", 7)


def moments(events: list[tuple[str | None, int]]) -> pa.Table:
    accounts, times = zip(*events, strict=True) if events else ((), ())
    return pa.table([pa.array(accounts, pa.string()), pa.array(times, pa.int64())], schema=LIFE_SCHEMA)


@settings(deadline=None, max_examples=100)
@given(events=EVENTS, cut=st.integers(0, 40))
def test_lives_are_the_two_smallest_times_of_each_account_however_reduced(
    events: list[tuple[str | None, int]], cut: int
) -> None:
    expected = {}
    for account in {name for name, _ in events if name is not None}:
        first, *rest = sorted({time for name, time in events if name == account})
        expected[account] = Life(first, rest[0] if rest else None)
    assert lives_of(moments(events)) == expected
    batches = [*moments(events[:cut]).to_batches(), *moments(events[cut:]).to_batches()]
    reduced = pa.Table.from_batches(reduce_moments(batches), LIFE_SCHEMA)
    assert lives_of(reduced) == expected
    assert reduced.num_rows <= 2 * len(expected)
    assert first_moments(reduced).equals(first_moments(first_moments(reduced)))
    parts = [lives_of(moments(events[:cut])), lives_of(moments(events[cut:]))]
    for account in parts[0].keys() & parts[1].keys():
        assert parts[0][account].merged(parts[1][account]) == parts[1][account].merged(parts[0][account])
        assert parts[0][account].merged(parts[1][account]) == expected[account]


def test_signs_of_life_count_up_to_a_moment() -> None:
    life = Life(10, 20)
    assert [life.signs_until(until) for until in (10, 11, 20, 21)] == [0, 1, 1, 2]
    assert Life(10, None).signs_until(99) == 1


def persons(*rows: dict[str, object]) -> pa.Table:
    types = {"event_time": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in PERSON_COLUMNS])
    return pa.Table.from_pylist(list(rows), schema=schema)


def test_persons_become_sightings_places_and_invites() -> None:
    intake = Intake(
        hide=lambda phone: NUMBER if phone else UNKNOWN_NUMBER,
        region_of=lambda phone: Region("CN", "Beijing") if phone == "1" else Region("ZZ", ""),
    )
    seen = {"event_time": 5, "device_id": "d", "fingerprint": "f", "ip": "10.1.2.3"}
    batch = intake.facts_of(
        persons(
            {"topic": LOGIN.name, "event_id": "1", "account_id": "a", "phone": "1", **seen},
            {"topic": LOGIN.name, "event_id": "2", "account_id": "a", "phone": "1", **seen},
            {"topic": VERIFY.name, "event_id": "3", "account_id": "b", "phone": "2", "event_time": 6},
            {
                "topic": INVITE.name,
                "event_id": "4",
                "account_id": "a",
                "inviter_id": "a",
                "invitee_id": "b",
                "invitee_phone": "1",
                **seen,
            },
        ),
        moments([("a", 3)]),
    )
    assert batch.sightings == [Sighting("a", "d", "f", "10.1.2")]
    assert batch.places == [Place("a", Region("CN", "Beijing"))]
    assert batch.invites == [Invite(5, "4", "a", "b", NUMBER, Region("CN", "Beijing"))]
    assert batch.lives == {"a": Life(3, None)}


def test_an_invitation_that_someone_else_reports_says_nothing_of_the_inviters_phone() -> None:
    intake = Intake(hide=lambda phone: UNKNOWN_NUMBER, region_of=lambda phone: Region("ZZ", ""))
    row = {
        "topic": INVITE.name,
        "event_id": "1",
        "event_time": 1,
        "account_id": "b",
        "inviter_id": "a",
        "invitee_id": "b",
    }
    assert intake.facts_of(persons({**row, "device_id": "d"}), moments([])).sightings == []


def test_logins_without_a_device_are_left_out() -> None:
    rows = [
        {"event_id": "1", "event_time": 1, "account_id": "a", "device_id": "d"},
        {"event_id": "2", "event_time": 2, "account_id": "a", "device_id": None},
    ]
    schema = pa.schema([(name, pa.int64() if name == "event_time" else pa.string()) for name in LOGIN_COLUMNS])
    assert logins_of(pa.Table.from_pylist(rows, schema=schema)) == {Login(1, "1", "d", "a")}


def test_networks_of_addresses() -> None:
    assert network_of("10.1.2.3") == "10.1.2"
    assert wider("10.1.2") == "10.1"
    assert network_of("2001:db8:7::1") == "2001:0db8:0007"
    assert wider(network_of("2001:db8:7::1")) == "2001:0db8"
    for ip in (None, "", "10.1.2", "10.1.2.999", "a.b.c.d", "1:2:3", "::zz"):
        assert network_of(ip) == ""
