"""docs/faults.md names error codes and tests: each code must have its number, and each test must exist."""

import ast
import re
from pathlib import Path

import pytest

from ottla.core.errors import ErrorCode
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
SERVED, NOT_YET = PAGE.split("## Not yet\n")


def rows(text: str) -> list[list[str]]:
    """The cells of each row, without the heads of the tables."""
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in cells if row[0] != "fault"]


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("row", rows(SERVED), ids=lambda row: row[0])
def test_every_fault_has_an_answer_and_a_test_that_exists(row: list[str]) -> None:
    _, answer, proofs = row
    assert answer
    named = re.findall(r"`([\w/.]+)::(\w+)`", proofs)
    assert named
    assert len(named) == len(proofs.split(", "))
    for path, name in named:
        assert name in functions_of(ROOT / path), f"{path} has no {name}"


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [row[0] for row in rows(PAGE)]
    assert len(names) > 100
    assert sorted(set(names)) == sorted(names)


def test_codes_have_their_numbers() -> None:
    named = re.findall(r"\b([A-Z][A-Z_]+) \((\d+)\)", PAGE)
    assert len(named) > 60
    assert [(name, number) for name, number in named if ErrorCode[name] != int(number)] == []


def test_every_file_of_fault_tests_proves_a_row() -> None:
    files = {f"tests/faults/{path.name}" for path in (ROOT / "tests" / "faults").glob("test_*.py")}
    assert files - set(re.findall(r"`(tests/faults/\w+\.py)::", SERVED)) == set()


def test_faults_that_are_not_served_yet_name_their_answer() -> None:
    assert all(len(row) == 2 and row[1] for row in rows(NOT_YET))
