"""Percentiles from the table of latencies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.latency import LatencyHistogram


def test_nothing_has_no_percentiles() -> None:
    assert LatencyHistogram().percentile_ms(50) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 50_000), min_size=1, max_size=200), st.sampled_from([50, 90, 99, 100]))
def test_a_percentile_is_within_a_step_of_the_exact_one(latencies_ms: list[float], percent: int) -> None:
    histogram = LatencyHistogram()
    for latency_ms in latencies_ms:
        histogram.add(latency_ms)
    ordered = sorted(latencies_ms)
    exact = ordered[-(-len(ordered) * percent // 100) - 1]
    seen = histogram.percentile_ms(percent)
    assert seen is not None
    assert exact - 1e-9 <= seen <= exact + (0.051 if exact < 100 else 1.001)


def test_extremes_stay_in_the_table() -> None:
    histogram = LatencyHistogram()
    histogram.add(-0.5)
    histogram.add(1e9)
    assert histogram.count == 2
    assert histogram.percentile_ms(50) == pytest.approx(0.05)
    assert histogram.percentile_ms(100) == pytest.approx(60_001)
