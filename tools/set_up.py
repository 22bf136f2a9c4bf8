"""Installs into .venv what `make run` needs, or everything, and says so: what, how much, and how far it has come.

Runs with the Python that tools/find_python.sh chose: that of .venv, or one that makes .venv anew. Standard library
only, as nothing else is there yet.
"""

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, NamedTuple

VENV = Path(".venv")
# Each holds the path of this folder: installed scripts have it in them.
RUN_STAMP = VENV / ".installed-run"
FULL_STAMP = VENV / ".installed"
RUN_EXTRAS = "pipeline"
FULL_EXTRAS = "pipeline,test,dev,cassandra"

# Elsewhere than on a terminal nobody waits longer for a sign of life.
SILENT_S_MAX = 9.0
TICK_S = 0.5
# pip prints the bytes of a download line by line since then.
RAW_PROGRESS_SINCE = (24, 1)
SHOWN_LINES_MAX = 60


class Amount(NamedTuple):
    """What a set-up comes to: measured on Linux, with nothing in pip's cache and a download of 100 MB/s."""

    download_mb: int
    disk_mb: int
    seconds: int


RUN_AMOUNT = Amount(download_mb=610, disk_mb=1100, seconds=75)
REST_AMOUNT = Amount(download_mb=130, disk_mb=540, seconds=25)
FULL_AMOUNT = Amount(*map(sum, zip(RUN_AMOUNT, REST_AMOUNT, strict=True)))
RUN_WHAT = "Spark with its own Java, Arrow, pandas and matplotlib"
REST_WHAT = "the tools of tests and checks"


class Progress:
    """What pip is at, from the lines that it prints. `counts_bytes`: of each download it prints how far it is."""

    def __init__(self, *, expected_mb: int | None = None, counts_bytes: bool = False) -> None:
        self._expected_mb = expected_mb
        self._counts_bytes = counts_bytes
        self._action = "starting pip"
        self._package = "ottla"
        self._packages = 0
        self._is_unpacking = False
        self._downloaded_mb = 0.0
        self._current_mb = 0.0

    def feed(self, line: str) -> None:
        if found := re.match(r"Progress (\d+) of (\d+)", line):
            self._current_mb, total_mb = int(found[1]) / 1e6, int(found[2]) / 1e6
            if total_mb >= 1:
                self._action = f"downloading {self._package}, {self._current_mb:.0f} of {total_mb:.0f} MB"
            if found[1] == found[2]:
                self._downloaded_mb += self._current_mb
                self._current_mb = 0.0
        elif found := re.match(r"Collecting ([\w.-]+)", line):
            self._package = found[1]
            self._packages += 1
            self._action = f"looking for {self._package}"
        elif found := re.match(r"\s+Downloading (?:\S*/)?([\w.-]+?)-\d\S* \(([\d.]+) ([kMG]?)B\)", line):
            size_mb = float(found[2]) * {"": 1e-6, "k": 1e-3, "M": 1, "G": 1e3}[found[3]]
            self._package = found[1]
            if size_mb >= 1:
                self._action = f"downloading {self._package}, {size_mb:.0f} MB"
            if not self._counts_bytes:
                self._downloaded_mb += size_mb
        elif found := re.match(r"\s+Using cached (?:\S*/)?([\w.-]+?)-\d", line):
            self._action = f"taking {found[1]} from pip's cache"
        elif re.match(r"\s+(Installing build dependencies|Preparing|Getting requirements)", line):
            self._action = f"preparing {self._package}"
        elif found := re.match(r"\s+Building (?:wheel|editable) for ([\w.-]+)", line):
            self._action = f"building {found[1]}"
        elif found := re.match(r"Installing collected packages: (.*)", line):
            self._action = f"unpacking {found[1].count(',') + 1} packages"
            self._is_unpacking = True

    def text(self, elapsed_s: float) -> str:
        text = f"  {elapsed_s:3.0f} s: {self._action}"
        if not self._packages or self._is_unpacking:
            return text
        text += f" ({self._packages} {'package' if self._packages == 1 else 'packages'}"
        downloaded_mb = self._downloaded_mb + self._current_mb
        if downloaded_mb >= 1:
            text += f", {downloaded_mb:.0f}"
            text += f" of about {self._expected_mb} MB" if self._expected_mb else " MB"
        return f"{text} so far)"


class Screen:
    """Where progress goes: one line that changes in place on a terminal, elsewhere a line now and then."""

    def __init__(self, stream: IO[str], *, is_terminal: bool, columns: int = 80) -> None:
        self._stream = stream
        self._is_terminal = is_terminal
        self._columns = columns
        self._shown = ""
        self._shown_at_s: float | None = None

    def show(self, text: str, now_s: float) -> None:
        if self._is_terminal:
            # One column is left free: a full line would wrap on some terminals.
            text = text[: self._columns - 1]
            if text != self._shown:
                self._write("\r" + text.ljust(len(self._shown)))
                self._shown = text
        elif self._shown_at_s is None:
            self._shown_at_s = now_s
        elif now_s - self._shown_at_s >= SILENT_S_MAX:
            self._shown_at_s = now_s
            self._write(text + "\n")

    def say(self, text: str) -> None:
        """Something that stays."""
        self.clear()
        self._write(text + "\n")

    def clear(self) -> None:
        if self._shown:
            self._write("\r" + " " * len(self._shown) + "\r")
            self._shown = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def run_pip(command: list[str], progress: Progress, screen: Screen) -> int:
    """Run it to its end and give its exit code. Warnings are shown as they come, errors when it failed."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8", "errors": "replace"}
    lines: queue.SimpleQueue[tuple[bool, str] | None] = queue.SimpleQueue()

    def read(stream: IO[str], is_error: bool) -> None:
        for line in stream:
            lines.put((is_error, line.rstrip("\n")))
        lines.put(None)

    errors: list[str] = []
    printed: list[str] = []
    began_s = time.monotonic()
    process = subprocess.Popen(command, env=environment, **pipes)  # type: ignore[call-overload]
    try:
        for stream, is_error in ((process.stdout, False), (process.stderr, True)):
            threading.Thread(target=read, args=(stream, is_error), daemon=True).start()
        ended = 0
        while ended < 2:
            try:
                taken = lines.get(timeout=TICK_S)
            except queue.Empty:
                pass
            else:
                if taken is None:
                    ended += 1
                elif not taken[0]:
                    progress.feed(taken[1])
                    printed.append(taken[1])
                elif taken[1].startswith("WARNING:"):
                    screen.say(taken[1])
                elif taken[1].strip():
                    errors.append(taken[1])
            now_s = time.monotonic()
            screen.show(progress.text(now_s - began_s), now_s)
    finally:
        # pip has had the same Ctrl-C, and cleans up after itself.
        code: int = process.wait()
    screen.clear()
    if code != 0:
        for line in (errors or printed)[-SHOWN_LINES_MAX:]:
            screen.say(line)
    return code


def pip_command(python: Path, extras: str, pip_version: tuple[int, ...]) -> list[str]:
    bar = "raw" if pip_version >= RAW_PROGRESS_SINCE else "off"
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", bar]
    return [str(python), "-m", "pip", "install", *options, "--editable", f".[{extras}]"]


def announcement(*, wants_all: bool, has_run: bool, is_update: bool) -> tuple[str, int | None]:
    """What is said before it begins, and the MB that will be downloaded if that is known."""
    if is_update:
        return f"Bringing {VENV} up to date with pyproject.toml: seconds, unless a large package has changed.", None
    if not wants_all:
        what, amount = RUN_WHAT, RUN_AMOUNT
    elif has_run:
        what, amount = REST_WHAT, REST_AMOUNT
    else:
        what, amount = f"{RUN_WHAT}, and {REST_WHAT}", FULL_AMOUNT
    text = (
        f"Installing into {VENV}: {what}.\n"
        f"About {amount.download_mb} MB to download, {amount.disk_mb / 1000:.1f} GB on disk; "
        f"about {amount.seconds} seconds on a quiet machine with a fast network."
    )
    return text, amount.download_mb


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "all"), help="what `make run` needs, or that and the tools of the rest")
    wants_all = parser.parse_args().what == "all"
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
    screen = Screen(sys.stderr, is_terminal=is_terminal, columns=shutil.get_terminal_size().columns)
    python = VENV / "bin" / "python"
    if Path(sys.prefix).resolve() != VENV.resolve():
        screen.say(f"Making {VENV} with Python {sys.version.split()[0]}.")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    stamp = FULL_STAMP if wants_all else RUN_STAMP
    text, expected_mb = announcement(
        wants_all=wants_all, has_run=RUN_STAMP.exists(), is_update=stamp.exists() or FULL_STAMP.exists()
    )
    screen.say(text)
    began_s = time.monotonic()
    version = subprocess.run([str(python), "-m", "pip", "--version"], capture_output=True, text=True, check=True).stdout
    pip_version = tuple(int(each) for each in re.findall(r"\d+", version.split()[1])[:2])
    progress = Progress(expected_mb=expected_mb, counts_bytes=pip_version >= RAW_PROGRESS_SINCE)
    code = run_pip(pip_command(python, FULL_EXTRAS if wants_all else RUN_EXTRAS, pip_version), progress, screen)
    if code != 0:
        screen.say(f"pip failed (exit code {code}): {VENV} is not complete. The same command goes on from here.")
        return code
    is_compiled = "from ottla.records.kernel import IS_COMPILED; raise SystemExit(not IS_COMPILED)"
    if subprocess.run([str(python), "-c", is_compiled], check=False).returncode != 0:
        screen.say(
            "Without the C kernel, for want of a C compiler or of Python.h: "
            "slower, and the broker does not check what is inside a batch."
        )
    for each in (RUN_STAMP, FULL_STAMP) if wants_all else (RUN_STAMP,):
        each.write_bytes(os.fsencode(Path.cwd()))
    screen.say(f"Installed in {time.monotonic() - began_s:.0f} seconds.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
