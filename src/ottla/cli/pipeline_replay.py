"""`ottla pipeline replay`: the topics into shadow tables, the differences, and with --execute the swap."""

import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.options import json_option
from ottla.cli.output import number, print_json, print_table, say
from ottla.cli.pipeline_options import (
    bootstrap_option,
    extras_installed,
    loaded_settings,
    opened_store,
    settings_option,
    store_choice,
    store_options,
)
from ottla.cli.pipeline_run import (
    CONNECTORS,
    checkpoint_folder,
    chosen_jobs,
    start_spark,
    stopping,
    store_name,
)
from ottla.clients.errors import ClientError

if TYPE_CHECKING:
    from ottla.pipeline.stores.port import Difference

_EXAMPLES_SHOWN: Final = 3
_NAME: Final = re.compile(r"[a-z0-9_]+(-[a-z0-9_]+)*")


def _checked_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise click.BadParameter(f"{value!r}: a name has lower-case letters, digits, - and _")
    return value


@click.command("replay")
@bootstrap_option
@store_options
@click.option("--jobs", metavar="JOB,…", help="Run only these jobs. Default: all.")
@click.option("--name", default="replay", show_default=True, callback=_checked_name, help="Name of the shadow tables.")
@click.option("--execute", is_flag=True, help="Swap the shadow tables in; the jobs must not run.")
@click.option("--accept-losses", is_flag=True, help="Swap even if rows are lost that the topics no longer hold.")
@click.option("--master", metavar="URL", help="Spark's master; by default all cores of this machine.")
@click.option("--connector", type=click.Choice(CONNECTORS), default="ottla", show_default=True, help="Spark's source.")
@settings_option
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The checkpoint of `ottla pipeline run`; the replay keeps its own in it.",
)
@json_option
def replay(
    bootstrap: str,
    store: str,
    store_path: Path | None,
    cassandra: str | None,
    jobs: str | None,
    name: str,
    execute: bool,
    accept_losses: bool,
    master: str | None,
    connector: str,
    config: Path | None,
    checkpoint: Path | None,
    as_json: bool,
) -> int:
    """Process the topics from their beginning into shadow tables, and show what differs from the tables.

    With --execute the shadow tables then replace the tables; the old tables are kept as the shadow NAME-before.
    """
    choice = store_choice(store, store_path, cassandra)
    folder = checkpoint_folder(choice, checkpoint)
    with extras_installed():
        from ottla.pipeline.detection.address_table import AddressTableError
        from ottla.pipeline.detection.thresholds import ThresholdError
        from ottla.pipeline.jobs.known import JOBS
        from ottla.pipeline.replay import Replay, ReplayFailed, WouldLose, own_checkpoint
        from ottla.pipeline.running.checkpoints import CheckpointRefused
        from ottla.pipeline.running.live import LiveLine
        from ottla.pipeline.running.query import SparkEnded
        from ottla.pipeline.running.runner import RunPlan
    settings = loaded_settings(config)
    plan = RunPlan(
        bootstrap=bootstrap,
        jobs=chosen_jobs(jobs, tuple(JOBS)),
        connector=connector,
        trigger_ms=None,
        checkpoint=folder,
        store_name=store_name(choice, folder),
        metrics_json=None,
    )
    log_folder = own_checkpoint(folder, name)
    began = time.monotonic()
    with opened_store(choice) as opened, LiveLine() as live:
        replaying = Replay(opened, plan, settings, name=name, report=live.report, show=live.show)

        def work_off() -> "list[Difference]":
            with stopping(replaying.ask_to_stop) as asked:
                try:
                    replaying.fill(lambda: start_spark(settings, log_folder, master=master, connector=connector))
                except ReplayFailed as error:
                    if signal.SIGINT in asked:
                        raise click.Abort from error
                    raise
            for progress in replaying.progress:
                live.report(progress.summary(time.monotonic() - began))
            return replaying.differences()

        try:
            if execute:
                with replaying.jobs_stopped():
                    differences = work_off()
                    kept_as = replaying.swap(differences, may_lose=accept_losses)
            else:
                differences = work_off()
        except (ClientError, CheckpointRefused, ReplayFailed, ThresholdError, AddressTableError, SparkEnded) as error:
            raise click.ClickException(str(error)) from error
        except WouldLose as error:
            raise click.ClickException(f"{error}; --accept-losses swaps all the same") from error
    _report(differences, as_json, is_swapped=execute)
    if execute:
        say(f"the shadow {name} has replaced the tables; the old tables are kept as the shadow {kept_as}")
    else:
        say("the tables are unchanged; add --execute to swap the shadow in")
    return 0


def _report(differences: "list[Difference]", as_json: bool, *, is_swapped: bool) -> None:
    if as_json:
        rows: list[dict[str, Any]] = [each._asdict() for each in differences]
        print_json({"differences": rows, "swapped": is_swapped})
        return
    if differences:
        heads = ("table", number("only in the tables"), number("only in the shadow"), number("changed"), "for example")
        print_table(heads, [_row(each) for each in differences])
    else:
        say("no difference between the tables and the shadow")


def _row(difference: "Difference") -> tuple[object, ...]:
    examples = "; ".join(
        ", ".join(f"{name}={value}" for name, value in key.items()) for key in difference.examples[:_EXAMPLES_SHOWN]
    )
    return difference.table, difference.only_here, difference.only_there, difference.changed, examples
