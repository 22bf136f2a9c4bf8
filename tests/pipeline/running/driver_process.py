"""`ottla pipeline run` as a process of its own, to be killed, stopped and started again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Spark takes seconds to start, and many of them on a machine with other things to do.
PATIENCE_S = 600.0


class DriverProcess:
    """One run. `folder` holds store, checkpoint and metrics, as `rig.Pipeline` has them."""

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        *arguments: str,
        store: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`store` are the options of another store than the embedded one in the folder; `environment` is ours else."""
        self.folder = folder
        self.metrics_path = folder / "metrics.json"
        self.metrics_path.unlink(missing_ok=True)
        self._log_path = folder / "driver.log"
        command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", "--bootstrap", bootstrap]
        command += [*(store or ("--store-path", str(folder / "store"))), "--checkpoint", str(folder / "checkpoint")]
        command += ["--metrics-json", str(self.metrics_path), *arguments]
        if environment is None:
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with self._log_path.open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    @property
    def log(self) -> str:
        """What this run and those before it have said."""
        return self._log_path.read_text(encoding="utf-8")

    def metrics(self) -> dict[str, Any]:
        """Of each job; empty before there are any."""
        if not self.metrics_path.exists():
            return {}
        jobs: dict[str, Any] = json.loads(self.metrics_path.read_text(encoding="utf-8"))["jobs"]
        return jobs

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Whether it came true before the run ended."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            if self._process.poll() is not None:
                return condition()
            assert time.monotonic() < deadline_s, f"it did not happen\n{self.log}"
            time.sleep(0.005)
        return True

    def begun(self, job: str) -> int:
        """How many batches of a job were begun, by all runs."""
        return self._highest(job, "offsets")

    def finished(self, job: str) -> int:
        return self._highest(job, "commits")

    def children(self, name: str) -> list[int]:
        """Processes of this name that it has started itself."""
        command = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "comm="]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = (line.split(maxsplit=2) for line in listed.splitlines())
        return [
            int(pid)
            for pid, parent, path in rows
            if parent == str(self._process.pid) and path.rpartition("/")[2] == name  # macOS gives the whole path
        ]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=60)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=PATIENCE_S)

    def wait(self) -> int:
        return self._process.wait(timeout=PATIENCE_S)

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()

    def _highest(self, job: str, kind: str) -> int:
        folder = self.folder / "checkpoint" / job / "spark" / kind
        if not folder.exists():
            return 0
        return max((int(path.name) + 1 for path in folder.iterdir() if path.name.isdecimal()), default=0)
