"""The demo's traffic: at its pace, the same every time, and never of the future."""

import time
from itertools import islice

import pytest

from ottla.pipeline.demo.feed import DAYS, SECONDS, Feed, accounts_for
from ottla.pipeline.demo.verdict import poor_scores
from ottla.pipeline.scoring.offline import measure
from ottla.pipeline.scoring.score import Score
from ottla.pipeline.traffic.events import Event
from ottla.pipeline.traffic.generator import DEFAULT_START_MS
from ottla.pipeline.traffic.population import DAY_MS
from ottla.pipeline.traffic.scenarios import Hardness

TEN_S = 10.0


def feed(*, is_forever: bool = False) -> Feed:
    return Feed(seed=3, accounts=20, seconds=TEN_S, is_forever=is_forever)


def event_at(time_ms: int) -> Event:
    return Event("ml_login_log", "d1", {}, time_ms)


def test_the_whole_of_it_takes_the_seconds_that_were_asked_for() -> None:
    assert feed().early_s(event_at(DEFAULT_START_MS + DAYS * DAY_MS), elapsed_s=0) == TEN_S
    assert feed().early_s(event_at(DEFAULT_START_MS), elapsed_s=2.5) == -2.5


def test_what_went_before_the_clock_was_started_is_not_waited_for() -> None:
    ours = feed()
    *_, last = islice(ours.events(), 50)
    assert ours.early_s(last, elapsed_s=0) > 0
    ours.start_clock()
    assert ours.early_s(last, elapsed_s=0) <= 0


def test_no_event_is_let_go_before_its_time_by_the_wall_clock() -> None:
    ahead_s = 1_000
    event = event_at(int((time.time() + ahead_s) * 1000))
    assert feed().early_s(event, elapsed_s=1e9) > ahead_s / 2


def test_the_truth_counts_what_came_with_its_repeats_and_broken_events() -> None:
    ours = feed()
    sent = sum(1 for _ in ours.events())
    truth = ours.truth()
    noise = truth["noise"]
    assert sent == sum(truth["events"].values()) + noise["duplicates"] + sum(noise["bad"].values())


def test_a_run_that_goes_on_has_other_days_after_the_first_ones() -> None:
    ours = feed(is_forever=True)
    first_days_end_ms = ours.start_ms + DAYS * DAY_MS
    counted = sum(1 for _ in feed().events())
    times = [event.event_time_ms for event in islice(ours.events(), 3 * counted)]
    assert times[0] < first_days_end_ms
    assert max(times) > first_days_end_ms + DAY_MS
    assert max(times) < time.time() * 1000
    assert ours.event_time_ms == max(times)


@pytest.mark.slow
def test_a_shorter_run_has_fewer_accounts_and_not_a_faster_stream() -> None:
    assert accounts_for(SECONDS) == 4000
    assert accounts_for(SECONDS / 6) == 667
    counts = []
    for seconds in (SECONDS / 6, SECONDS / 3):
        ours = Feed(seed=1, accounts=accounts_for(seconds), seconds=seconds, is_forever=False)
        counts.append(sum(1 for _ in ours.events()) / seconds)
    assert counts[0] == pytest.approx(counts[1], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 20.0])
def test_a_short_run_has_cheats_of_both_kinds_and_a_correct_one_passes(seconds: float) -> None:
    scores: list[Score] = []
    measure(
        range(1, 5),
        Hardness.MEDIUM,
        accounts=accounts_for(seconds),
        days=DAYS,
        batch_ms=DAY_MS // 4,
        report=lambda _, score: scores.append(score),
    )
    for score in scores:
        planted = {line.detector: line.counts.right + line.counts.missed for line in score.detectors}
        assert planted["device_switching"] >= 3
        assert planted["invite_fraud"] >= 7
        assert poor_scores(score) == []
