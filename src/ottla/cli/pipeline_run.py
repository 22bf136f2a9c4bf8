"""`ottla pipeline run`: jobs on the topics, once or until it is stopped.

Exit code 0 when all is processed or SIGTERM stopped the run, 1 when a job was given up, 130 after Ctrl-C. The command
imports Spark when it runs, so that a missing extra gives a clear error.
"""

import logging
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.failures import nearest
from ottla.cli.output import say
from ottla.cli.pipeline_options import (
    CASSANDRA,
    StoreChoice,
    bootstrap_option,
    extras_installed,
    loaded_settings,
    settings_option,
    store_choice,
    store_options,
)
from ottla.clients.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipeline.settings import Settings

CONNECTORS: Final = ("ottla", "kafka")
_INTERRUPTED: Final = 130
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_ADDRESS: Final = re.compile(r"[A-Za-z][\w+.-]+:/")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DEFAULT_TRIGGER_MS: Final = 2_000


def _duration_ms(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a duration such as 500ms, 2s or 1m")
    return int(float(found[1]) * _UNIT_MS[found[2]])


@click.command("run")
@bootstrap_option
@store_options
@click.option("--jobs", metavar="JOB,…", help="Run only these jobs. Default: all.")
@click.option("--once", is_flag=True, help="Process what is on the topics now, then exit.")
@click.option(
    "--trigger",
    "trigger_ms",
    callback=_duration_ms,
    metavar="INTERVAL",
    help="Start a batch at this interval. Default: 2s.",
)
@click.option("--master", metavar="URL", help="Spark's master; by default all cores of this machine.")
@click.option("--connector", type=click.Choice(CONNECTORS), default="ottla", show_default=True, help="Spark's source.")
@settings_option
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the offsets and of Spark's log. Default: in the folder of an embedded store.",
)
@click.option(
    "--metrics-json", type=click.Path(path_type=Path, dir_okay=False), help="Write metrics of the jobs to this file."
)
def run(
    bootstrap: str,
    store: str,
    store_path: Path | None,
    cassandra: str | None,
    jobs: str | None,
    once: bool,
    trigger_ms: int | None,
    master: str | None,
    connector: str,
    config: Path | None,
    checkpoint: Path | None,
    metrics_json: Path | None,
) -> int:
    """Run jobs on the app's topics: store events, keep ledger and tasks, detect fraud, find users' regions."""
    if once and trigger_ms is not None:
        raise click.UsageError("--once processes what is there and exits; --trigger is for a run that goes on")
    choice = store_choice(store, store_path, cassandra)
    folder = checkpoint_folder(choice, checkpoint)
    with extras_installed():
        from ottla.pipeline.detection.address_table import AddressTableError
        from ottla.pipeline.detection.thresholds import ThresholdError
        from ottla.pipeline.jobs.known import JOBS
        from ottla.pipeline.running.checkpoints import CheckpointRefused
        from ottla.pipeline.running.failures import describe_failure
        from ottla.pipeline.running.live import LiveLine
        from ottla.pipeline.running.query import DONE, FAILED, SparkEnded
        from ottla.pipeline.running.runner import Runner, RunPlan
        from ottla.pipeline.stores.opening import open_store
        from ottla.pipeline.stores.port import StoreError
    settings = loaded_settings(config)
    plan = RunPlan(
        bootstrap=bootstrap,
        jobs=chosen_jobs(jobs, tuple(JOBS)),
        connector=connector,
        trigger_ms=None if once else trigger_ms or _DEFAULT_TRIGGER_MS,
        checkpoint=folder,
        store_name=store_name(choice, folder),
        metrics_json=metrics_json,
    )
    if settings.has_development_hash_key:
        say("phone numbers are hashed with the key for development, known to everyone; set phones.hash_key")
    with LiveLine() as live:
        runner = Runner(
            plan,
            settings,
            open_store=lambda: open_store(choice.kind, path=choice.path, cassandra=choice.cassandra),
            report=live.report,
            show=live.show,
        )
        began = time.monotonic()
        try:
            with stopping(runner.ask_to_stop) as asked, stopping_spark():
                is_well = runner.run(lambda: start_spark(settings, folder, master=master, connector=connector))
        except (
            ClientError,
            CheckpointRefused,
            StoreError,
            ThresholdError,
            AddressTableError,
            SparkEnded,
        ) as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            raise click.ClickException(describe_failure(error)) from error
    for progress in runner.progress:
        if progress.batches or progress.state == DONE:
            say(progress.summary(time.monotonic() - began))
    if not is_well:
        why = next(f"{each.job} was given up: {each.last_failure}" for each in runner.progress if each.state == FAILED)
        raise click.ClickException(
            f"{why}. Not all events were processed; the next run continues from there. Spark's log: {folder}/spark.log"
        )
    return _INTERRUPTED if signal.SIGINT in asked else 0


def chosen_jobs(given: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return known
    chosen = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if not chosen:
        raise click.UsageError(f"--jobs names none; there are {', '.join(known)}")
    for name in chosen:
        if name not in known:
            raise click.UsageError(f"no job {name}{nearest(name, known)}; there are {', '.join(known)}")
    return chosen


def checkpoint_folder(choice: StoreChoice, given: Path | None) -> Path:
    if given is not None:
        if _ADDRESS.match(str(given)):
            raise click.UsageError(f"--checkpoint {given}: a folder of this machine is expected")
        return given.resolve()
    if choice.path is None:
        raise click.UsageError("with --store cassandra, say where the checkpoint is: --checkpoint DIR")
    return choice.path.resolve() / "checkpoint"


def store_name(choice: StoreChoice, checkpoint: Path) -> str:
    """The store's name in the checkpoint; a store that was moved together with its checkpoint keeps it."""
    if choice.kind == CASSANDRA:
        return f"cassandra {choice.cassandra}"
    assert choice.path is not None
    path = choice.path.resolve()
    return "embedded, around it" if checkpoint.is_relative_to(path) else f"embedded {path}"


def start_spark(settings: "Settings", folder: Path, *, master: str | None, connector: str) -> "SparkSession":
    from ottla.spark.connector_jars import ConnectorNotFound, find_connector_jars
    from ottla.spark.java import JavaNotFound
    from ottla.spark.session import CARRYING_JAVA, LOCAL_CHECKPOINTS, LOCAL_MASTER, spark_session

    # Spark's Python side logs to the same file as its Java side.
    logging.basicConfig(filename=folder / "spark.log", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return spark_session(
            master or LOCAL_MASTER,
            "ottla pipeline",
            extra_jars=find_connector_jars() if connector == "kafka" else (),
            driver_memory=settings.get_text("spark.driver_memory"),
            java_options=CARRYING_JAVA if connector == "ottla" else (),
            log_file=folder / "spark.log",
            settings=LOCAL_CHECKPOINTS,
        )
    except (ConnectorNotFound, JavaNotFound, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def stopping_spark() -> Iterator[None]:
    """A session that starts within the block ends with it, so that a master knows that we are done."""
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    from ottla.spark.java_process import how_it_ended

    was_there = SparkSession.getActiveSession() is not None
    try:
        yield
    finally:
        # A session whose process is gone has nothing to stop, and would print a long error.
        if not was_there and how_it_ended() is None:
            try:
                session = SparkSession.getActiveSession()
                if session is not None:
                    session.stop()
            except (Py4JError, OSError):
                pass  # it is gone just now


@contextmanager
def stopping(ask_to_stop: Callable[[], None]) -> Iterator[set[int]]:
    """SIGINT, SIGTERM and SIGHUP end the run after the current batch; a second one at once."""
    asked: set[int] = set()

    def ask(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP and number in asked:
            return  # a shell passes on what the kernel sends as well: it is one closed terminal
        if asked:
            raise KeyboardInterrupt
        asked.add(number)
        ask_to_stop()

    # For a closed terminal, unless we shall outlive it, as under nohup.
    hang_up = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, *hang_up)}
    try:
        yield asked
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
