"""`python -m ottla.pipeline.demo.launch ARGUMENTS…` is `ottla ARGUMENTS…`, and ends when its parent process has ended.

The parent holds the other end of standard input, which closes however it ends. A pipe works on every system; Linux's
parent-death signal also fires when only the thread ends that started the process.
"""

import os
import signal
import sys
import threading
import time
from typing import Final

_GRACE_S: Final = 30.0


def main() -> int:
    threading.Thread(target=end_with_parent, args=(_GRACE_S,), daemon=True).start()
    from ottla.cli.main import main as ottla

    return ottla()


def end_with_parent(grace_s: float) -> None:
    """Wait for the parent's end, then stop as on SIGTERM; after the grace period, kill the whole group."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
