"""A process that starts another as the demo does, says what it knows of it, and waits to be killed."""

import os
import sys
import time
from pathlib import Path

from ottla.pipeline.demo.child import OTTLA, ChildProcess
from ottla.pipeline.demo.local_broker import LocalBroker

# Ignores SIGTERM, has a child of its own, and is to be ended by force a moment after its parent.
DEAF = """
import signal, subprocess, sys, threading, time
from ottla.pipeline.demo.launch import end_with_parent
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
threading.Thread(target=end_with_parent, args=(0.1,), daemon=True).start()
print(child.pid, flush=True)
time.sleep(600)
"""


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "broker":
        broker = LocalBroker(folder)
        broker.start(lambda: None)
        pids = [broker.process.pid]
        child = broker.process
    else:
        child = ChildProcess([OTTLA[0], "-c", DEAF], log_path=folder / "log")
        child.start()
        while not child.log_lines():
            time.sleep(0.01)
        pids = [child.pid, int(child.log_tail())]
    usage = child.usage()
    print(*pids, "unknown" if usage is None else usage.resident_bytes, flush=True)
    os.read(0, 1)


if __name__ == "__main__":
    main()
