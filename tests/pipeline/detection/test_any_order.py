"""A verdict is a function of the set of events: any order, any repeats and any batches end in the same alerts."""

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.detection.facts import Region
from ottla.pipeline.detection.in_memory import MemoryStore
from ottla.pipeline.detection.phone_region import PhoneRegions
from ottla.pipeline.detection.thresholds import Thresholds, default_thresholds
from ottla.pipeline.scoring.offline import OfflineDetectors
from ottla.pipeline.topics import EXPOSURE, INVITE, LEFT_SLIDE, LOGIN, TASK
from ottla.pipeline.traffic.events import Event
from tests.pipeline.traffic.oracle import cycle_members

START_MS = 1_756_656_000_000
MINUTE_MS = 60_000
REGIONS = PhoneRegions()
# Low limits, so that a handful of events meets many rules.
LOW = Thresholds(
    default_thresholds().device_switching._replace(ping_pong_returns=2, ping_pong_span_ms=6 * 3_600_000),
    default_thresholds().invite_fraud._replace(
        campaign_gap_ms=20 * 3_600_000,
        shared_fingerprint_invitees=2,
        burst_invites=2,
        burst_span_ms=6 * 3_600_000,
        group_invitees=3,
        neighbours=2,
        ring_accounts=3,
    ),
)
ACCOUNTS = st.integers(0, 6)
# Few distinct times, so that some events share one.
TIMES = st.integers(0, 4 * 24 * 4).map(lambda quarter: START_MS + quarter * 15 * MINUTE_MS)


def _event(draw: Any, number: int) -> tuple[str, dict[str, Any]]:
    account, device, time_ms = draw(ACCOUNTS), draw(st.integers(0, 3)), draw(TIMES)
    value: dict[str, Any] = {
        "event_id": f"e{number}",
        "event_time": time_ms,
        "account_id": f"u{account}",
        "device_id": f"d{device}",
        "fingerprint": f"f{device % 2}",
        "ip": f"100.64.{device % 2}.{account}",
    }
    kind = draw(st.integers(0, 9))
    if kind < 4:
        invitee = draw(ACCOUNTS)
        phone = f"+86{draw(st.sampled_from(['1300010', '1300040']))}{invitee * 15:04d}"
        return INVITE.name, {**value, "inviter_id": f"u{account}", "invitee_id": f"u{invitee}", "invitee_phone": phone}
    if kind < 7:
        return LOGIN.name, {**value, "phone": f"+861300010{account:04d}", "login_kind": "sms"}
    return draw(st.sampled_from([EXPOSURE.name, LEFT_SLIDE.name, TASK.name])), value


@st.composite
def runs(draw: Any) -> tuple[list[Any], list[list[Any]]]:
    """Events, and the same in another order, some twice, in batches."""
    events = [_event(draw, number) for number in range(draw(st.integers(4, 40)))]
    repeats = draw(st.lists(st.sampled_from(events), max_size=8))
    shuffled = draw(st.permutations([*events, *repeats]))
    cuts = sorted(draw(st.lists(st.integers(0, len(shuffled)), max_size=6)))
    return events, [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(shuffled)], strict=True)]


def _alerts(batches: list[list[Any]], *, has_table: bool) -> Any:
    table = {"100.64.0": Region("CN", "Beijing"), "100.64.1": Region("CN", "Guangdong")}.get if has_table else None
    detectors = OfflineDetectors(thresholds=LOW, region_of_network=table, regions=REGIONS)
    for batch in batches:
        detectors.feed(batch)
    return tuple(
        [{name: value for name, value in row.items() if name != "detected_ms"} for row in rows]
        for rows in detectors.finish()
    )


@settings(deadline=None, max_examples=60)
@given(run=runs(), has_table=st.booleans())
def test_alerts_are_the_same_in_any_order_with_repeats_and_in_any_batches(run: Any, has_table: bool) -> None:
    events, batches = run
    assert _alerts(batches, has_table=has_table) == _alerts([events], has_table=has_table)


@settings(deadline=None, max_examples=15)
@given(run=runs(), repeated=st.integers(0, 6))
def test_a_batch_that_is_run_again_changes_nothing(run: Any, repeated: int) -> None:
    _, batches = run
    again = batches[: repeated + 1] + batches[repeated:]
    assert _alerts(again, has_table=False) == _alerts(batches, has_table=False)


@settings(deadline=None, max_examples=15)
@given(run=runs())
def test_facts_are_the_same_in_any_batches(run: Any) -> None:
    events, batches = run
    stores = MemoryStore(), MemoryStore()
    for store, each in zip(stores, ([events], batches), strict=True):
        detectors = OfflineDetectors(thresholds=LOW, regions=REGIONS, store=store)
        for batch in each:
            detectors.feed(batch)
        detectors.finish()
    for table, rows in stores[0].rows.items():
        if not table.endswith("_alert"):
            assert stores[1].rows[table] == rows


@settings(deadline=None, max_examples=40)
@given(edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12), cuts=st.lists(st.integers(0, 12)))
def test_cycles_are_found_whichever_invitation_closes_them(edges: list[tuple[int, int]], cuts: list[int]) -> None:
    events = [
        (
            INVITE.name,
            {
                "event_id": f"e{number}",
                "event_time": START_MS + number * MINUTE_MS,
                "account_id": f"u{inviter}",
                "inviter_id": f"u{inviter}",
                "invitee_id": f"u{invitee}",
            },
        )
        for number, (inviter, invitee) in enumerate(edges)
    ]
    bounds = [0, *sorted(cuts), len(events)]
    batches = [events[a:b] for a, b in pairwise(bounds)]
    found = _alerts(batches, has_table=False)
    assert found == _alerts([events], has_table=False)
    on_cycles = cycle_members([Event(topic, "", value, 0) for topic, value in events])
    assert {row["inviter_id"] for row in found[1] if "ring_cycle" in row["rules"]} == on_cycles
