"""Histograms count each value once, in the bucket that its bound ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.metrics import REQUEST_BOUNDS_NS, ErrorCounts, Histogram


def test_a_value_goes_into_the_first_bucket_whose_bound_is_not_below_it() -> None:
    histogram = Histogram((10, 20))
    for value in (0, 10, 11, 20, 21):
        histogram.observe(value)
    reading = histogram.read()
    assert reading.counts == (2, 2, 1)
    assert reading.sum_ns == 62
    assert histogram.count == 5


def test_a_reading_does_not_change_with_its_histogram() -> None:
    histogram = Histogram((10,))
    before = histogram.read()
    histogram.observe(1)
    assert before.counts == (0, 0)


def test_bounds_must_grow() -> None:
    with pytest.raises(AssertionError):
        Histogram((20, 10))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 10**11)))
def test_buckets_hold_what_a_sorted_list_would_say(values: list[int]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    total = 0
    for bound_ns, count in zip(REQUEST_BOUNDS_NS, histogram.counts, strict=False):
        total += count
        assert total == sum(value <= bound_ns for value in values)
    assert histogram.count == len(values)
    assert histogram.sum_ns == sum(values)


def test_errors_are_counted_by_code() -> None:
    errors = ErrorCounts()
    for code in (3, 7, 3):
        errors.add(code)
    assert errors.by_code == {3: 2, 7: 1}
