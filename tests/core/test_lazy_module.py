"""A module that is imported with its first use."""

import sys

import pytest

from ottla.core.lazy_module import LazyModule

NAME = "tests.core.imported_lazily"


def test_a_lazy_module_is_imported_when_something_of_it_is_used() -> None:
    sys.modules.pop(NAME, None)
    lazy = LazyModule(NAME)
    assert not hasattr(lazy, "__wrapped__")  # what tools look for
    assert NAME not in sys.modules
    assert lazy.ANSWER == 42
    assert NAME in sys.modules
    assert lazy.answer is sys.modules[NAME].answer


def test_what_a_lazy_module_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="imported_lazily"):
        LazyModule(NAME).nothing  # noqa: B018
