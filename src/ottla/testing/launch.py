"""The program of a test's broker process: `ottla serve`, which ends when the test's process ends in any way.

The test holds the other end of standard input. A parent-death signal would also fire when only the thread ends that
started the process, and needs code between fork and exec, which is unsafe in a threaded process.
"""

import os
import signal
import threading


def main() -> None:
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    from ottla.cli.main import main as ottla

    ottla()


def _end_with_the_test() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
