"""franz-go (its own protocol code, in Go) against our broker: each codec, a cooperative group, its admin client."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from interop.broker_process import BrokerProcess

_FOLDER = Path(__file__).with_name("franz_go")


@pytest.fixture(scope="module")
def franz_go() -> Path:
    """The program, built once for each state of its source; Go fetches what it needs by module name."""
    source = b"".join((_FOLDER / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache_home / "ottla" / f"franz-go-{hashlib.sha256(source).hexdigest()[:16]}"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            pytest.skip("no go (Debian: golang-go)")
        program.parent.mkdir(parents=True, exist_ok=True)
        built = subprocess.run(
            [go, "build", "-o", str(program), "."],
            cwd=_FOLDER,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if built.returncode != 0:
            pytest.skip(f"go could not build with franz-go: {built.stderr[-500:]}")
    return program


def test_franz_go_group_and_its_admin_client(broker: BrokerProcess, franz_go: Path) -> None:
    finished = subprocess.run(
        [str(franz_go), broker.bootstrap, "franz-go-topic", "franz-go-group"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    seen = json.loads(finished.stdout)
    assert seen["retention"] == "90000"
    assert seen["taken"] == 2  # cooperative: only what the other gets
    assert seen["read"] == [250, 250]
    assert (seen["state"], seen["protocol"], seen["members"]) == ("Stable", "cooperative-sticky", 2)
    assert (seen["records"], seen["unique"]) == (600, 600)
    assert seen["lag"] == 0
    assert seen["committed"] == {"0": 150, "1": 7, "2": 150, "3": 150}
