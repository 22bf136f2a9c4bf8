"""Why Spark did not start, in one line: from the output of its Java process, or from its exception."""

import re
from typing import Final

# Lines of any start, or about the failure as a whole.
_NOT_THE_CAUSE: Final = re.compile(
    r"$|NOTE: Picked up|Picked up |WARNING: |OpenJDK 64-Bit|Using Spark's default|Setting default log level|\s+at "
    r"|Error: (Could not create the Java|A fatal exception|A JNI error)|\[.*(warning|info)\]"
    r"|Error occurred during initialization|Error initializing SparkContext"
)
_LOG_HEAD: Final = re.compile(r"^\d\d/\d\d/\d\d [\d:.]+ ([A-Z]+) [\w.$]+: ")
_LOUD: Final = ("ERROR", "FATAL")
_THREAD: Final = re.compile(r"^Exception in thread \"[^\"]*\" ")
_PACKAGE: Final = re.compile(r"\b(?:[a-z][a-z0-9_]*\.)+(?=[A-Z]\w*(?:Exception|Error)\b)")
_RAISED: Final = re.compile(r"^(?:: |Caused by: |Exception in thread \"[^\"]*\" )((?:[\w$]+\.)*[\w$]+: .+)$", re.M)
_LONGEST: Final = 400


def first_cause(text: str) -> str:
    """Of an exception from Java: what was raised, without the stack trace."""
    raised = _RAISED.search(text)
    return _shortened(raised[1] if raised else next(iter(text.strip().splitlines()), ""))


def first_complaint(log: str) -> str | None:
    """The first line of a log that names a problem; None if no line does."""
    is_loud = True  # until a logger writes; the further lines of a message have its level
    for line in log.splitlines():
        head = _LOG_HEAD.match(line)
        if head is not None:
            is_loud = head[1] in _LOUD
        said = _LOG_HEAD.sub("", line)
        if is_loud and not _NOT_THE_CAUSE.match(said):
            return _shortened(_THREAD.sub("", said))
    return None


def _shortened(text: str) -> str:
    line = _PACKAGE.sub("", " ".join(text.split()))
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
