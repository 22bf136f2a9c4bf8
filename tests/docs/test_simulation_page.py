"""docs/simulation.md: its programs and its runs of `ottla-sim` print what the page shows."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner

from ottla.testing.simulation.command import simulate
from ottla.testing.simulation.fault_plan import FaultPlan
from tests.docs.markdown import ROOT, Block, blocks
from tests.docs.shown_output import matches

PAGE = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
BLOCKS = blocks(PAGE)
PROGRAMS = [block for block in BLOCKS if block.language == "python"]
COMMANDS = [block for block in BLOCKS if block.language == "sh"]


def line_of(block: Block) -> str:
    return f"line {block.line}"


@pytest.mark.slow
@pytest.mark.parametrize("block", PROGRAMS, ids=line_of)
def test_program_prints_what_the_page_shows(block: Block) -> None:
    # In a process of its own, as a reader runs it; there is nothing to wait for in it.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", block.text], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert matches(block.shown or "", done.stdout), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("block", COMMANDS, ids=line_of)
def test_command_prints_what_the_page_shows(block: Block) -> None:
    name, *arguments = shlex.split(block.text)
    assert name == "ottla-sim"
    result = CliRunner().invoke(simulate, arguments)
    assert block.shown is not None
    assert result.exit_code == ("Broken rule" in block.shown), result.output
    assert matches(block.shown, result.output), result.output


def test_every_kind_of_fault_is_explained() -> None:
    section = PAGE.split("## `ottla-sim`")[1].split("\n## ")[0]
    rows = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| `")]
    assert sorted(re.findall(r"`([\w-]+)`", " ".join(rows))) == sorted(FaultPlan.KINDS)
