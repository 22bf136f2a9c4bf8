"""Whole runs: those of a correct broker keep the rules, those that must lose something are found out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.command import simulate
from ottla.testing.simulation.fault_plan import FaultPlan, FaultSettings
from ottla.testing.simulation.run import RunResult, RunSettings, SimulatedRun, first_failure

ONE = RunSettings(brokers=1, duration_s=30, partitions=2, producers=1, faults=FaultSettings(interval_s=2))


def run(seed: int, settings: RunSettings = ONE) -> RunResult:
    return SimulatedRun(seed, settings).run()


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 6])  # in 3 the broker and the store are away for most of the time
def test_one_broker_keeps_the_rules_under_faults(seed: int) -> None:
    result = run(seed)
    assert result.acked > 100
    assert sum(result.faults.values()) > 3
    assert result.read >= result.acked


@pytest.mark.parametrize("kind", FaultPlan.KINDS)
def test_one_broker_keeps_the_rules_under_one_kind_of_fault(kind: str) -> None:
    result = run(3, ONE._replace(faults=FaultSettings(interval_s=2, lasts_max_s=5, kinds=(kind,))))
    assert list(result.faults) == [kind]


def test_the_same_seed_is_the_same_run() -> None:
    assert run(7) == run(7)
    assert run(7).digest != run(8).digest


def test_the_same_seed_is_the_same_run_under_any_hash_seed() -> None:
    code = "from tests.testing.simulation.test_run import run; print(run(7).digest)"
    digests = []
    for hash_seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parent.parent.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(found.stdout.strip())
    assert digests == [run(7).digest] * 2


def test_members_of_a_group_read_commit_leave_and_come_back() -> None:
    settings = ONE._replace(members=3, member_lives_s=4, faults=FaultSettings(interval_s=5, kinds=("cut", "kill")))
    result = run(4, settings)
    assert result.commits > 5
    assert result.rebalances > 5


def test_what_was_acked_and_not_fsynced_is_missed_after_a_loss_of_power() -> None:
    settings = ONE._replace(flush_messages=0, faults=FaultSettings(interval_s=5, kinds=("power-off",)))
    found = first_failure(range(1, 5), settings)
    assert found is not None
    assert isinstance(found[1], BrokenRule)
    assert first_failure(range(1, 3), ONE) is None


def test_a_fault_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="earthquake"):
        run(1, ONE._replace(faults=FaultSettings(kinds=("earthquake",))))


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        simulate, ["--brokers", "1", "--seconds", "10", "--partitions", "1", "--producers", "1", *arguments]
    )
    return result.exit_code, result.output


def test_command_runs_seeds_and_shows_what_they_came_to() -> None:
    exit_code, output = command("--seeds", "2", "--first", "5")
    assert exit_code == 0
    assert [line.split(":")[0] for line in output.splitlines()] == ["seed 5", "seed 6", "seen"]


def test_command_prints_every_step_of_one_seed() -> None:
    exit_code, output = command("--seed", "5", "--trace")
    assert exit_code == 0
    assert "start broker-1" in output
    assert len(output.splitlines()) > 500


def test_command_shows_seed_last_steps_and_broken_rule_of_a_run_that_failed() -> None:
    lossy = ("--flush-messages", "0", "--faults", "power-off", "--fault-interval", "2")
    exit_code, output = command(*lossy, "--seeds", "20")
    assert exit_code == 1
    assert "power off" in output
    assert "Broken rule: " in output
    seed = output[output.index("--seed ") :].split()[1]
    again, output_again = command(*lossy, "--seed", seed)
    assert again == 1
    assert output_again[output_again.index("Broken rule") :] == output[output.index("Broken rule") :]
    exit_code, output = command(*lossy, "--seeds", "20", "--keep-going")
    assert exit_code == 1
    assert seed in output.splitlines()[-1]


@pytest.mark.parametrize("wrong", [("--trace",), ("--faults", "earthquake")])
def test_command_refuses_wrong_usage(wrong: tuple[str, ...]) -> None:
    assert command(*wrong)[0] == 2


def test_command_is_a_module_with_help() -> None:
    code = "from ottla.testing.simulation.command import main; main(['--help'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: ottla-sim" in found.stdout
