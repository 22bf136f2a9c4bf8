"""Real broker processes for tests: started on a free port, killed or stopped, and never left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


class BrokerProcess:
    """`ottla serve` on 127.0.0.1; the port is kept over restarts, so that clients find it again."""

    def __init__(self, data_dir: Path, *overrides: str, port: int = 0) -> None:
        self.data_dir = data_dir
        self.overrides = list(overrides)
        self.port = port
        self.program = [sys.executable, "-m", "ottla.cli.main"]
        self.before_exec: Callable[[], None] | None = None  # runs in the child, to limit what it may do
        self.process: subprocess.Popen[str] | None = None
        self.log_path = data_dir.with_name(data_dir.name + ".log")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        """What the broker has written to its log so far."""
        return self.log_path.read_text(encoding="utf-8")

    @property
    def resident_bytes(self) -> int:
        """What the process holds in memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def open_sockets(self) -> int:
        """Connections that the broker has not closed yet, and its listener."""
        return sum(link.startswith("socket:") for link in self.open_files)

    @property
    def open_files(self) -> list[str]:
        """What the descriptors of the process stand for."""
        links = []
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                links.append(str(entry.readlink()))
            except FileNotFoundError:
                pass  # closed since it was listed
        return links

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        """Where the files of a partition lie."""
        return self.data_dir / f"{topic}-{partition}"

    def start(self) -> "BrokerProcess":
        """Start it and wait for the line that says that it accepts."""
        command = [*self.program, "serve", "--data-dir", str(self.data_dir)]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        for override in self.overrides:
            command += ["--override", override]
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=self.before_exec
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "listens on" not in line:
            self.process.wait(timeout=30)
            raise AssertionError(f"the broker did not start: {line!r}\n{self.log}")
        self.port = int(line.strip().rsplit(":", 1)[1])
        return self

    def kill(self) -> None:
        """As a crash does: no chance to say or write anything."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(timeout=30)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(timeout=30)
            if self.process.stdout is not None:
                self.process.stdout.close()


def eventually(condition: Callable[[], bool], *, within_s: float = 90.0) -> None:
    """Wait for what another process does in its own time; the test fails when it never comes."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Of a process that need not be ours; one that has ended and that nobody has asked about yet runs no more."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.strip().startswith("Z")


def processes_with(text: str) -> list[str]:
    """Command lines that hold `text`, ours aside."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=", "-o", "args="], capture_output=True, text=True, check=True
    )
    own = {str(os.getpid()), str(os.getppid())}
    rows = (line.strip().partition(" ") for line in listed.stdout.splitlines())
    return [command.strip() for pid, _, command in rows if text in command and pid not in own]


def _environment() -> dict[str, str]:
    """Ours, but with compiled modules cached: a broker that compiles itself at each start is no broker to test."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
