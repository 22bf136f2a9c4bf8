"""Commands to copy: with a path of `ottla` that works here, quoted for a shell."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.pipeline.demo.observing import SeenAlert


def watch_command(address: str, topic: str) -> str:
    """To run in another terminal during the run."""
    return shlex.join([ottla_path(), "consume", "-b", address, "-t", topic, "-o", "beginning"])


def next_commands(run_dir: Path, *, topic: str, alerts: Sequence[SeenAlert], has_score: bool) -> list[str]:
    """To run after broker and jobs have ended, on their data."""
    ottla = ottla_path()
    run_path = as_typed(run_dir)
    store = ["--store-path", f"{run_path}/store"]
    commands = []
    if alerts:
        # The alert with the most reasons.
        richest = max(alerts, key=lambda alert: (alert.why.count("; "), len(alert.why)))
        commands.append([ottla, "pipeline", "explain", richest.alert_id, *store])
    if has_score:
        commands.append([ottla, "pipeline", "score", "--truth", f"{run_path}/truth.json", *store])
    else:
        commands.append([ottla, "pipeline", "show", *store])
    commands.append([ottla, "pipeline", "reconcile", *store])
    commands.append([ottla, "serve", "--data-dir", f"{run_path}/broker"])
    commands.append([ottla, "consume", "-t", topic, "-o", "beginning", "-e"])
    return [shlex.join(command) for command in commands]


def ottla_path() -> str:
    """`ottla` as it can be typed where the run was started."""
    beside_python = Path(sys.executable).with_name("ottla")
    return as_typed(beside_python) if beside_python.exists() else "ottla"


def as_typed(path: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Relative to the folder of the caller's shell, which after `make -C` is not ours."""
    here = Path.cwd()
    shell_dir = environ.get("PWD")
    absolute = here / path
    if shell_dir is not None and not _is_same(Path(shell_dir), here):
        return str(absolute)
    try:
        return str(absolute.relative_to(here))
    except ValueError:
        return str(absolute)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
