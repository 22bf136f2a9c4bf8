"""Why a query failed: the one line that says so, out of pages of Java and Python tracebacks.

And whether another try could succeed: a busy machine may start a process the next time, a missing program never will.
"""

import errno
import os
import re
from typing import Final

# The last line of a Python traceback, which is part of Spark's message.
_PYTHON_ERROR: Final = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*): (.+)$", re.M)
_JAVA_CAUSE: Final = re.compile(r"^Caused by: (?:[\w.$]+\.)?(\w+): (.+)$", re.M)
_NOT_THE_CAUSE: Final = frozenset({"PythonException", "SparkException", "Py4JJavaError", "StreamingQueryException"})
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]+)".*?error(?:=\d+, |: \d+ \()([^\n)]+)')
_NO_WORKER: Final = re.compile(r"^Error from python worker:\s*\n\s*(\S.*)$", re.M)
# Failures of Spark's own processes: what they lack now they will lack at the next try.
_LASTING: Final = re.compile(
    r"Cannot run program|No module named|\b(?:ModuleNotFound|Import)Error\b|PYTHON_VERSION_MISMATCH"
    r"|\b(?:ClassNotFoundException|NoClassDefFoundError|UnsatisfiedLinkError|UnsupportedClassVersionError)\b"
    r"|Permission denied|\bAccess(?:Denied|Control)Exception\b"
)
# The option of the data source, and the setting of the pipeline that sets it.
_OPTION_AND_SETTING: Final = ("set failOnDataLoss to false", "set source.fails_on_data_loss to false")
_LONGEST: Final = 600


def describe_failure(error: BaseException) -> str:
    """The reason, on one line."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"no space left on the disk{f' of {error.filename}' if error.filename else ''}; make room"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    text = str(error)
    if not _is_from_spark(error):
        return _shortened(f"{text or type(error).__name__}")
    if "No space left on device" in text:
        return "no space left on the disk, as Spark says; make room"
    if "Python worker failed to connect back" in text:
        return "a Python process of Spark's did not start within the ten seconds that Spark gives it: a busy machine"
    text = _without_plan(text)
    missing = _NO_PROGRAM.search(text)
    if missing is not None:
        return f"Spark can't start {missing[1]}: {missing[2]}"
    refused = _NO_WORKER.search(text)
    if refused is not None:
        return _shortened(f"a Python process of Spark's did not start: {refused[1]}")
    causes = [found for found in _PYTHON_ERROR.findall(text) if found[0] not in _NOT_THE_CAUSE]
    if not causes:
        causes = [found for found in _JAVA_CAUSE.findall(text) if found[0] not in _NOT_THE_CAUSE]
    if causes:
        name, message = causes[-1]
        message = message.replace(*_OPTION_AND_SETTING)
        return _shortened(message if name in ("DataLoss", "RuntimeError") else f"{name}: {message}")
    return _shortened(text.strip().splitlines()[0] if text.strip() else type(error).__name__)


def is_lasting(error: BaseException) -> bool:
    """Whether Spark lacks something that it needs to start, so that another try would fail too."""
    return _is_from_spark(error) and _LASTING.search(_without_plan(str(error))) is not None


def _without_plan(text: str) -> str:
    """The part after this line is the query's plan and its offsets."""
    return text.partition("=== Streaming Query ===")[0]


def _is_from_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark", "py4j"))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
