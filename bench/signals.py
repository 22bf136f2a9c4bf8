"""How a signal ends the benchmarks: by an exception, so that every broker and every folder goes on the way out."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end the process with 128 and their number, and without a traceback."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _exit)
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
