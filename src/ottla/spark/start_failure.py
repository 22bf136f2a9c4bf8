"""Why Spark did not start, in one line: out of what its Java process has written, or of an exception of its own."""

import re
from typing import Final

# Said at any start, or of it as a whole.
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
    """Of an exception that came from Java: what was raised, without the way that it took."""
    raised = _RAISED.search(text)
    return _shortened(raised[1] if raised else next(iter(text.strip().splitlines()), ""))


def first_complaint(log: str) -> str | None:
    """The first line of a log that says what is wrong; None if no line does."""
    is_loud = True  # until a logger speaks; its further lines are as loud as its first
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
