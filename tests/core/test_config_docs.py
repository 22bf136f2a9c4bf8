"""The page of all keys is generated, and must be what the declarations say."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.core.config.broker_keys import BROKER_DEFINITION
from ottla.core.config.topic_keys import TOPIC_DEFINITION

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for name in (*BROKER_DEFINITION.keys, *TOPIC_DEFINITION.keys):
        assert f"| `{name}` |" in page


@pytest.mark.process
def test_the_page_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_config_docs.py"), "--check"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
