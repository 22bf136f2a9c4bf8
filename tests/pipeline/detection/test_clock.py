"""The detectors' clock: event time, never back, and not held by topics that are idle."""

from ottla.pipeline.detection.clock import EMPTY_CLOCK, advanced


def test_the_slowest_topic_holds_the_clock() -> None:
    assert advanced(EMPTY_CLOCK, {"a": 10, "b": 5}).now_ms == 5


def test_an_idle_topic_does_not() -> None:
    state = advanced(EMPTY_CLOCK, {"a": 10, "b": 5})
    assert advanced(state, {"a": 20}).now_ms == 5
    assert advanced(state, {"a": 20}, idle_topics={"b"}).now_ms == 20


def test_it_never_goes_back() -> None:
    state = advanced(EMPTY_CLOCK, {"a": 20})
    later = advanced(state, {"b": 5})
    assert later.now_ms == 20
    assert later.high_ms == 20


def test_the_end_of_a_run_takes_it_to_the_largest_time() -> None:
    state = advanced(EMPTY_CLOCK, {"a": 10, "b": 5})
    assert advanced(state, {}, is_final=True).now_ms == 10
    assert advanced(state, {}, idle_topics={"a", "b"}).now_ms == 10
    assert advanced(EMPTY_CLOCK, {}, is_final=True) == EMPTY_CLOCK
