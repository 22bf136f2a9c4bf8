"""Whatever clients do and however the coordinator restarts: one owner per partition, and in the end one generation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coordinator.group.group_simulation import Simulation


@pytest.mark.slow
@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_run_keeps_one_owner_per_partition_and_comes_to_rest(seed: int) -> None:
    simulation = Simulation(seed, fails_commits=False)
    simulation.run(250)
    simulation.settle_down()


@pytest.mark.slow
@settings(deadline=None, max_examples=40, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_run_with_failing_commits_does_so_too(seed: int) -> None:
    simulation = Simulation(seed, fails_commits=True)
    simulation.run(250)
    simulation.settle_down()
