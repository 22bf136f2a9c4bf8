"""One shell that a page's blocks are pasted into, in order: what a block started, set or left is there for the next.

Standard output is a terminal, as for a person: commands print there what they print to people. Standard error has the
broker's log and progress; it is kept for the report of a failure. Nothing that was started outlives the shell.
"""

import os
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType

_BLOCK_TIMEOUT_S = 90.0  # a hang ends; nothing is measured by it
_MARK = "--- the end of a block, exit code "
# Each command that fails is named, and the block goes on as it would on a person's screen.
_PRELUDE = """
set -o pipefail
trap 'echo "exit code $?: $BASH_COMMAND" >> "$FAILED_COMMANDS"' ERR
"""


class Terminal:
    """A context manager. `run` takes one block and gives what it printed."""

    def __init__(self, folder: Path, scratch: Path, *, prefix: tuple[str, ...] = (), **environment: str) -> None:
        self._folder = folder
        self._scratch = scratch
        self._prefix = prefix
        self._environment = environment
        self._blocks = 0
        self._unread = ""
        self.errors_path = scratch / "stderr"
        self._failed_path = scratch / "failed"

    @property
    def errors(self) -> str:
        """Standard error so far."""
        return self.errors_path.read_text(encoding="utf-8", errors="replace")

    @property
    def failed_commands(self) -> str:
        """Each command that has ended with another exit code than 0."""
        return self._failed_path.read_text(encoding="utf-8")

    def __enter__(self) -> "Terminal":
        self._failed_path.write_text("", encoding="utf-8")
        self._screen, screen_of_shell = os.openpty()
        attributes = termios.tcgetattr(screen_of_shell)
        attributes[1] &= ~termios.OPOST  # line ends stay as they were written
        termios.tcsetattr(screen_of_shell, termios.TCSANOW, attributes)
        with self.errors_path.open("wb") as errors:
            self._shell = subprocess.Popen(
                [*self._prefix, "bash", "--norc", "--noprofile"],
                stdin=subprocess.PIPE,
                stdout=screen_of_shell,
                stderr=errors,
                cwd=self._folder,
                env=self._shell_environment(),
                start_new_session=True,
                text=True,
            )
        os.close(screen_of_shell)
        self._write(_PRELUDE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            os.killpg(self._shell.pid, signal.SIGKILL)  # without job control all that it started is in its group
        except ProcessLookupError:
            pass
        self._shell.wait(timeout=30)
        assert self._shell.stdin is not None
        try:
            self._shell.stdin.close()
        except BrokenPipeError:
            pass
        os.close(self._screen)

    def run(self, text: str) -> str:
        """Paste a block, wait for its end, and give what came to standard output since the last one."""
        self._blocks += 1
        block = self._scratch / f"block-{self._blocks}.sh"
        block.write_text(text, encoding="utf-8")
        self._write(f"source '{block}' < /dev/null\nprintf '%s%s\\n' '{_MARK}' $?\n")
        return self._read_block()

    def run_python(self, code: str) -> str:
        """The same for a script of Python."""
        script = self._scratch / f"script-{self._blocks + 1}.py"
        script.write_text(code, encoding="utf-8")
        return self.run(f"python '{script}'\n")

    def running_jobs(self) -> str:
        """What a block has started and none has stopped."""
        return self.run("jobs -r\n")

    def _write(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text)
        self._shell.stdin.flush()

    def _read_block(self) -> str:
        deadline_s = time.monotonic() + _BLOCK_TIMEOUT_S
        while _MARK not in self._unread or not self._unread.endswith("\n"):
            ready, _, _ = select.select([self._screen], [], [], max(0.0, deadline_s - time.monotonic()))
            if not ready:
                raise AssertionError(f"the block does not end; so far it has printed:\n{self._unread}\n{self.errors}")
            try:
                chunk = os.read(self._screen, 65536)
            except OSError:  # EIO: the shell has ended, and nobody has the terminal open any more
                chunk = b""
            if not chunk:
                raise AssertionError(f"the shell has ended; it has printed:\n{self._unread}\n{self.errors}")
            self._unread += chunk.decode("utf-8", errors="replace")
        printed, _, rest = self._unread.partition(_MARK)
        self._unread = rest.partition("\n")[2]
        return printed

    def _shell_environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
        return {
            **kept,
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "TERM": "dumb",  # no colours; the size is then taken from here
            "COLUMNS": "120",
            "LINES": "50",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "FAILED_COMMANDS": str(self._failed_path),
            **self._environment,
        }
