"""Spark's Java process: starts it, ends it with this process, and says how it ended.

Knows nothing of jobs.
"""

import atexit
import os
import signal
import subprocess
import threading
from typing import IO, Any, Final

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext, java_gateway

# Its connections break a moment before it can be seen to have ended.
_ENDS_WITHIN_S: Final = 10.0


def launch_java(conf: SparkConf, output: IO[bytes]) -> JavaGateway:
    """Start it with its output in this file; it ends with this process, however that ends.

    If the launch is interrupted, pyspark forgets a Java process that is not up yet, and removes the folder that Java
    reports to: Java would fail at that, and stay for ever. So this kills a process that was launched in vain.
    """
    launched: list[subprocess.Popen[bytes]] = []

    class RememberedProcess(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            launched.append(self)
            # In a group of its own, so that the launcher's short-lived Java is killed with it, and so that Ctrl-C does
            # not reach it: pyspark sees to that by code that runs after the fork, where Python swallows our signals.
            super().__init__(*arguments, **settings | {"process_group": 0, "preexec_fn": None})

    names = vars(java_gateway)
    its_own_class = names["Popen"]
    names["Popen"] = RememberedProcess
    try:
        gateway = java_gateway.launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
    except BaseException:
        for process in launched:
            _kill(process)
        raise
    finally:
        names["Popen"] = its_own_class
    atexit.register(_end, launched)
    return gateway


def _end(launched: "list[subprocess.Popen[bytes]]") -> None:
    """At our exit: Java must be gone before others remove the folders that it works in."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # this takes a bounded time
    for process in launched:
        try:
            if process.stdin is not None:
                process.stdin.close()  # what Java waits for, to end in good order
            process.wait(timeout=_ENDS_WITHIN_S)
        except BrokenPipeError:
            process.wait()
        except subprocess.TimeoutExpired:
            _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    # Without a pid it never started; after a wait its id may belong to another process.
    if getattr(process, "pid", None) is not None and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def how_it_ended(*, is_expected: bool = False) -> str | None:
    """`Spark's Java process 4711 was killed (SIGKILL)`; None while it runs.

    `is_expected`: it has stopped answering, so this waits for its end.
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
        words += ", by someone or by the system for lack of memory"
    return words


def _process() -> "subprocess.Popen[bytes] | None":
    gateway = SparkContext._gateway
    # Not by getattr: a gateway asks Java for attributes that it does not have.
    return None if gateway is None else vars(gateway).get("proc")
