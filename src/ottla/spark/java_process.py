"""Spark's Java process, which this one has started: whether it is gone, and how that is told. Knows nothing of jobs."""

import signal
import subprocess
from typing import Final

from pyspark import SparkContext

# Its connections break a moment before it can be seen to have ended.
_ENDS_WITHIN_S: Final = 10.0


def java_process_id() -> int | None:
    """None where there is none, or where another process has started it."""
    process = _process()
    return None if process is None else process.pid


def how_it_ended(*, is_expected: bool = False) -> str | None:
    """`Spark's Java process 4711 was killed (SIGKILL)`; None while it runs.

    `is_expected`: it has stopped to answer, so that its end is waited for.
    """
    process = _process()
    if process is None:
        return "Spark's Java process does not answer any more" if is_expected else None
    try:
        code = process.wait(timeout=_ENDS_WITHIN_S) if is_expected else process.poll()
    except subprocess.TimeoutExpired:
        return f"Spark's Java process {process.pid} runs, and does not answer any more"
    if code is None:
        return None
    if code >= 0:
        return f"Spark's Java process {process.pid} ended by itself with exit code {code}"
    words = f"Spark's Java process {process.pid} was killed ({signal.Signals(-code).name})"
    if -code == signal.SIGKILL:
        words += ", by someone or by the system for want of memory"
    return words


def _process() -> "subprocess.Popen[bytes] | None":
    gateway = SparkContext._gateway
    # Not by getattr: what a gateway does not have it asks Java for.
    return None if gateway is None else vars(gateway).get("proc")
