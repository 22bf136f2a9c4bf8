"""The command `ottla-sim`: runs of a simulated cluster, one for each seed; a run that fails says how to repeat it."""

import logging
import sys
import time
import traceback
from collections.abc import Sequence

import click

from ottla.testing.simulation.broken_rule import BrokenRule
from ottla.testing.simulation.fault_plan import FaultPlan, FaultSettings
from ottla.testing.simulation.profiles import short_run
from ottla.testing.simulation.run import RunSettings, SimulatedRun

_DEFAULTS = RunSettings()
_FAULTS = FaultSettings()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=click.IntRange(1), default=10, show_default=True, help="How many seeds to run.")
@click.option("--first", type=int, default=1, show_default=True, help="The first of them.")
@click.option("--seed", type=int, help="Run this seed alone.")
@click.option("--trace", is_flag=True, help="Print every step; with --seed.")
@click.option("--log", is_flag=True, help="Show what the brokers log; with --seed.")
@click.option("--brokers", type=click.IntRange(1), default=_DEFAULTS.brokers, show_default=True)
@click.option("--partitions", type=click.IntRange(1), default=_DEFAULTS.partitions, show_default=True)
@click.option("--producers", type=click.IntRange(1), default=_DEFAULTS.producers, show_default=True)
@click.option("--members", type=click.IntRange(0), default=_DEFAULTS.members, show_default=True, help="Of a group.")
@click.option("--seconds", type=float, default=_DEFAULTS.duration_s, show_default=True, help="With faults, simulated.")
@click.option("--flush-messages", type=click.IntRange(0), default=_DEFAULTS.flush_messages, show_default=True)
@click.option(
    "--fault-interval", type=float, default=_FAULTS.interval_s, show_default=True, help="Seconds, on average."
)
@click.option("--down", type=int, default=_FAULTS.down_max, show_default=True, help="Brokers that may be down at once.")
@click.option("--faults", default="", help=f"Only these kinds, with commas: {', '.join(FaultPlan.KINDS)}.")
@click.option(
    "--short",
    is_flag=True,
    help="Short runs as the tests have them: the seed chooses load and faults, not the options.",
)
@click.option("--keep-going", is_flag=True, help="Run all seeds, also after one that failed.")
def simulate(
    seeds: int,
    first: int,
    seed: int | None,
    trace: bool,
    log: bool,
    brokers: int,
    partitions: int,
    producers: int,
    members: int,
    seconds: float,
    flush_messages: int,
    fault_interval: float,
    down: int,
    faults: str,
    short: bool,
    keep_going: bool,
) -> None:
    """Run a cluster of brokers on simulated machines under faults, and judge what it did.

    The same seed and options give the same run again, step by step.
    """
    kinds = tuple(filter(None, (kind.strip() for kind in faults.split(","))))
    unknown = [kind for kind in kinds if kind not in FaultPlan.KINDS]
    if unknown:
        raise click.UsageError(f"no faults of these kinds: {', '.join(unknown)}")
    if (trace or log) and seed is None:
        raise click.UsageError("--trace and --log are for one run: name it by --seed")
    settings = RunSettings(
        brokers=brokers,
        partitions=partitions,
        producers=producers,
        members=members,
        duration_s=seconds,
        flush_messages=flush_messages,
        faults=FaultSettings(interval_s=fault_interval, down_max=down, kinds=kinds),
    )
    chosen = [seed] if seed is not None else range(first, first + seeds)
    seen: dict[str, int] = {}
    disabled = logging.root.manager.disable
    if not log:
        logging.disable(logging.CRITICAL)
    try:
        failed = [
            each
            for each in chosen
            if not _run(each, short_run(each) if short else settings, seen, is_traced=trace, ends=not keep_going)
        ]
    finally:
        logging.disable(disabled)
    click.echo(f"seen: {', '.join(f'{what} {count}' for what, count in sorted(seen.items())) or 'nothing'}")
    if failed:
        click.echo(f"{len(failed)} of {len(chosen)} runs failed; seeds {', '.join(map(str, failed))}", err=True)
        sys.exit(1)


def _run(seed: int, settings: RunSettings, seen: dict[str, int], *, is_traced: bool, ends: bool) -> bool:
    """Whether the run kept the rules; one that did not ends the command where `ends`.

    `seen` counts what it has shown.
    """
    run = SimulatedRun(seed, settings)
    steps = run.cluster.scheduler.trace
    steps.is_printing = is_traced
    steps.print_line = click.echo
    started = time.monotonic()
    try:
        result = run.run()
    except Exception as error:  # noqa: BLE001 - any failure of a run is what the command is there to show
        _report(run, error, with_steps=not is_traced)
        if ends:
            sys.exit(1)
        return False
    finally:
        for what, count in run.sightings.counts.items():
            seen[what] = seen.get(what, 0) + count
    took_s = time.monotonic() - started
    click.echo(
        f"seed {seed}: {result.simulated_s:.0f} s in {took_s:.1f} s, {result.steps} steps, {result.acked} acked, "
        f"{sum(result.faults.values())} faults, digest {result.digest}"
    )
    return True


def _report(run: SimulatedRun, error: Exception, *, with_steps: bool) -> None:
    steps = run.cluster.scheduler.trace
    if with_steps:
        click.echo("The last steps:", err=True)
        for step in steps.last_steps():
            click.echo(str(step), err=True)
    else:
        steps.fold()
    click.echo("What happened to the cluster:", err=True)
    for note in steps.last_notes():
        click.echo(str(note), err=True)
    if isinstance(error, BrokenRule):
        click.echo(f"Broken rule: {error.name}\n  {error.detail}", err=True)
    else:
        click.echo("".join(traceback.format_exception(error)), err=True)
    click.echo(
        f"seed {run.cluster.seed} failed at {run.cluster.now:.6f} s; once more with every step: the same command with "
        f"--seed {run.cluster.seed} --trace",
        err=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    simulate.main(args=list(arguments) if arguments is not None else None, prog_name="ottla-sim")
