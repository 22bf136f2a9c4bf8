"""`python -m ottla.pipeline.demo`, which is `make run`: a broker, the app's topics, generated traffic with planted
cheats, every job on it in Spark, live figures, and at the end the proof. Exit code 0 when all of it holds, 1 when not,
130 after Ctrl-C. What it has started ends with it.
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    # Before the imports, which take a second: nothing has started yet, so a signal may end us without a traceback.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: os._exit(128 + number))

import click
from rich.text import Text

from ottla.cli.pipeline_options import extras_installed
from ottla.clients.errors import ClientError
from ottla.pipeline.demo.feed import DAYS, SECONDS, Feed, accounts_for
from ottla.pipeline.demo.local_broker import StartFailed
from ottla.pipeline.demo.run_folder import claimed, new_run_folder, remove_earlier
from ottla.pipeline.demo.run_signals import ENDING
from ottla.pipeline.screen.terminal import open_closed_descriptors, open_console

_PARENT: Final = Path("data")
_ROOM_BYTES: Final = 64 * 1024 * 1024
_INTERRUPTED: Final = 130


@click.command()
@click.option("--forever", is_flag=True, help="Run until Ctrl-C.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes the same traffic.")
@click.option(
    "--accounts",
    type=click.IntRange(min=1),
    help=f"Default: {accounts_for(SECONDS):,} for {SECONDS:.0f} s, fewer for a shorter run, more for a longer one.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.5),
    default=SECONDS,
    show_default=True,
    help=f"How long to send {DAYS} days of traffic. Start and checks take longer.",
)
@click.option("--run-dir", type=click.Path(path_type=Path), help="Default: a new folder data/run-….")
def main(forever: bool, seed: int, accounts: int | None, seconds: float, run_dir: Path | None) -> int:
    """Run the whole pipeline on generated traffic, and check its results."""
    with extras_installed():
        from ottla.pipeline.demo.playing import Demo
        from ottla.pipeline.running.failures import describe_failure
        from ottla.pipeline.stores.port import StoreError
    console = open_console()
    try:
        if run_dir is None:
            run_dir = new_run_folder(_PARENT)
            for removed in remove_earlier(_PARENT, new=run_dir):
                console.print(f"removed  {removed}, an earlier run", highlight=False, markup=False, soft_wrap=True)
        with claimed(run_dir):
            check_room(run_dir)
            console.print(Text.assemble(("folder   ", "cyan"), str(run_dir)), highlight=False, soft_wrap=True)
            feed = Feed(seed=seed, accounts=accounts or accounts_for(seconds), seconds=seconds, is_forever=forever)
            return Demo(console, run_dir, feed).run()
    except (StartFailed, ClientError, StoreError, OSError) as error:
        words = describe_failure(error) if isinstance(error, OSError) else str(error)
        failure = open_console(stderr=True)
        failure.print("FAILED  ", end="", style="bold red")
        failure.print(words, highlight=False, markup=False, soft_wrap=True)
        return 1


def check_room(folder: Path) -> None:
    """Checked before anything starts: each process would fail at its own first write, with its own message."""
    free = shutil.disk_usage(folder).free
    if free < _ROOM_BYTES:
        mib = 1024 * 1024
        raise StartFailed(f"{folder}: {free // mib} MiB are free on its disk, and a run needs {_ROOM_BYTES // mib} MiB")


def exit_code() -> int:
    """At the end of the run all processes have ended: more signals would only interrupt these last steps."""
    try:
        return int(main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    finally:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    open_closed_descriptors()
    sys.exit(exit_code())
