"""The ports that a page names are 9092 and the like, which a machine may use for something else.

Where the system allows it, a page runs in a network namespace of its own and exactly as it is written. Elsewhere each
port of 127.0.0.1 is replaced by a free one, in the same way everywhere: in the blocks, in what they show, and for the
defaults of `ottla serve` and of the commands that connect to it.
"""

import re
import shutil
import socket
import subprocess

_OWN_NETWORK = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
_ADDRESS = re.compile(r"127\.0\.0\.1:([1-9]\d*)")
_DEFAULT_PORT = "9092"


def own_network() -> tuple[str, ...] | None:
    """What to put before a command, so that all ports are free; None where that is not possible."""
    if shutil.which("unshare") is None:
        return None
    tried = subprocess.run([*_OWN_NETWORK, "true"], capture_output=True, check=False)
    return _OWN_NETWORK if tried.returncode == 0 else None


class OtherPorts:
    """Free ports for those that a page names."""

    def __init__(self) -> None:
        self._chosen: dict[str, int] = {}

    @property
    def default_address(self) -> str:
        return self.applied_to(f"127.0.0.1:{_DEFAULT_PORT}")

    def applied_to(self, text: str) -> str:
        """The text with other ports; `ottla serve` gets the address that is its default."""
        text = re.sub(
            r"\bottla serve\b(?![^\n]*--(?:listen|config|help)\b)",
            f"ottla serve --listen 127.0.0.1:{_DEFAULT_PORT}",
            text,
        )
        return _ADDRESS.sub(lambda found: f"127.0.0.1:{self._port(found[1])}", text)

    def _port(self, named: str) -> int:
        if named not in self._chosen:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._chosen[named] = free.getsockname()[1]
        return self._chosen[named]
