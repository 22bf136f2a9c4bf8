"""Temporary folders of killed processes are removed by the next one; those in use and those of others are not."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.session_folder import claim, remove_abandoned

CLAIMING = """
import sys
from pathlib import Path
from ottla.spark.session_folder import claim
claim(Path(sys.argv[1]))
print("claimed", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_a_folder_is_removed_when_the_process_that_claimed_it_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "ours-1"
    folder.mkdir()
    command = [sys.executable, "-c", CLAIMING, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        assert remove_abandoned(tmp_path, prefix="ours-") == []
        assert folder.exists()
        process.send_signal(signal.SIGKILL)
    assert remove_abandoned(tmp_path, prefix="ours-") == [folder]
    assert not folder.exists()


def test_what_nobody_has_claimed_or_has_another_name_is_left_alone(tmp_path: Path) -> None:
    for name in ("ours-unclaimed", "theirs-1", "ours-claimed"):
        (tmp_path / name).mkdir()
    claim(tmp_path / "ours-claimed")
    (tmp_path / "ours-file").touch()
    assert remove_abandoned(tmp_path, prefix="ours-") == []
