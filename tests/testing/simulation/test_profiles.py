"""The short runs that the tests have: every profile is some seed's, and is the same run under any hash seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.simulation.profiles import PROFILES, profile_of, short_run
from ottla.testing.simulation.run import SimulatedRun

FIRST_SEED = 1
SEEDS = range(FIRST_SEED, FIRST_SEED + len(PROFILES))


def digests() -> list[str]:
    return [SimulatedRun(seed, short_run(seed)).run().digest for seed in SEEDS]


def test_every_profile_is_chosen_by_some_seed() -> None:
    assert {profile_of(seed) for seed in SEEDS} == set(PROFILES)
    assert [short_run(seed) for seed in SEEDS] == [PROFILES[profile_of(seed)] for seed in SEEDS]


@pytest.mark.slow
def test_the_same_seed_is_the_same_run_under_any_hash_seed() -> None:
    code = "from tests.testing.simulation.test_profiles import digests; print(*digests())"
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parent.parent.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert found[0] == found[1]
    assert len(found[0].split()) == len(PROFILES)
