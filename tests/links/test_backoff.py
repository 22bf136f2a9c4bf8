"""Waits between attempts."""

from random import Random

import pytest

from ottla.links.backoff import Backoff


@pytest.mark.parametrize("failures", [0, 5, 40, 1_000])
def test_a_wait_never_exceeds_its_limit(failures: int) -> None:
    assert Backoff(first_ms=50, max_ms=1_000).delay_ms(failures) <= 1_200
    assert Backoff(first_ms=0, max_ms=0).delay_ms(failures) == 0


def test_a_wait_doubles_with_each_failure() -> None:
    backoff = Backoff(first_ms=100, max_ms=1_000, random=Random(1))
    for failures, expected_ms in enumerate([100, 200, 400, 800, 1_000, 1_000]):
        assert 0.8 * expected_ms <= backoff.delay_ms(failures) <= 1.2 * expected_ms
