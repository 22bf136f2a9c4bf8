"""The page of the clients' keys is generated, and must be what the declarations say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.process
def test_the_page_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_client_config_docs.py"), "--check"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
