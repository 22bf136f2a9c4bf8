"""Our own broker as a child process, started by its command line as a user would."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from interop.broker_process import BrokerProcess


class OttlaBroker(BrokerProcess):
    """`ottla serve` on a data folder; the port is chosen beforehand, so that a restart keeps it."""

    name = "ottla"

    def __init__(
        self, data_dir: Path, *, overrides: Mapping[str, str] | None = None, python: str = sys.executable
    ) -> None:
        """`python` is the interpreter of the checkout that serves."""
        super().__init__(data_dir, overrides=overrides)
        self._python = python

    def command(self) -> Sequence[str]:
        command = [self._python, "-m", "ottla.cli.main", "serve"]
        command += ["--data-dir", str(self.data_dir), "--listen", f"127.0.0.1:{self.port}"]
        command += ["--ready-file", str(self.data_dir.parent / f"{self.data_dir.name}.ready")]
        for key, value in self.overrides.items():
            command += ["--override", f"{key}={value}"]
        return command
