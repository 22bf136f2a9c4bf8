"""What is said where a library of an extra is not installed."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from ottla.core.extras import EXTRA_OF, ExtraMissing, needs_extra

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def missing(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_missing_library_is_named_with_its_extra() -> None:
    with pytest.raises(ExtraMissing) as raised, needs_extra("poll_arrow", "columns"):
        raise missing("pyarrow.compute")
    expected = "poll_arrow needs pyarrow: install Ottla with its extra columns (in a clone: pip install '.[columns]')"
    assert str(raised.value) == expected
    assert raised.value.name == "pyarrow.compute"


def test_several_extras_are_all_named() -> None:
    with pytest.raises(ExtraMissing) as raised, needs_extra("register", "spark", "columns"):
        raise missing("pyspark")
    assert str(raised.value).endswith("with its extras spark and columns (in a clone: pip install '.[spark,columns]')")


def test_a_library_of_no_extra_is_a_fault_of_another_kind() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'tomlib'") as raised, needs_extra("it", "columns"):
        raise missing("tomlib")
    assert type(raised.value) is ModuleNotFoundError


def test_what_was_said_within_stays() -> None:
    with (
        pytest.raises(ExtraMissing, match=r"^read needs"),
        needs_extra("all", "pipeline"),
        needs_extra("read", "columns"),
    ):
        raise missing("numpy")


def test_every_library_is_brought_by_the_extra_that_is_named() -> None:
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert set(EXTRA_OF.values()) <= set(declared)
    distributions = packages_distributions()
    for library, extra in EXTRA_OF.items():
        if library in ("starlette", "uvicorn", "py4j"):
            continue  # of an extra that tests do without; of PySpark's own
        required = {re.split(r"[\[<>=]", line)[0] for line in declared[extra]}
        names = {name.lower() for name in distributions[library]}
        assert names & required, f"{library} is of {names}, {extra} has {required}"
