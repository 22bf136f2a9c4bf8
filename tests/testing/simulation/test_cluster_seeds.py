"""Short runs of three brokers under load and faults keep the rules, and show all that can happen to a cluster.

Its other half is `test_cluster_seeds_second.py`: two modules, so that two workers share them.
"""

import pytest

from tests.testing.simulation.short_seeds import ShortSeeds

SEEDS = ShortSeeds(first=1, count=150)
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seeds", SEEDS.chunks, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_seeds_keep_the_rules(seeds: range) -> None:
    SEEDS.run(seeds)


def test_seeds_have_shown_everything() -> None:
    if not SEEDS.are_all_done:
        pytest.skip("not all seeds were run")
    assert SEEDS.missing == []
