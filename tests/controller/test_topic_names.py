"""Which names a topic may have."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.topic_names import metric_name, problem_with


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "...", "__consumer_offsets", "-", "x" * 249])
def test_legal_names_have_no_problem(name: str) -> None:
    assert problem_with(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a\0b", "a b", "a\n", "ä", "a:b", "a\\b", "x" * 250, "ａ", "٣"]
)
def test_names_that_could_leave_their_folder_or_node_are_refused(name: str) -> None:
    assert problem_with(name)


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_legal_name_is_one_plain_part_of_a_path(name: str) -> None:
    if problem_with(name) is None:
        assert name.isascii()
        assert 0 < len(name) < 250
        assert not set(name) & set("/\\\0\n ")
        assert name not in (".", "..")


@pytest.mark.parametrize(("name", "other"), [("a.b", "a_b"), ("_", "."), ("a.b_c", "a_b.c")])
def test_names_that_differ_in_dot_and_underscore_only_collide(name: str, other: str) -> None:
    assert metric_name(name) == metric_name(other)


@pytest.mark.parametrize(("name", "other"), [("a.b", "a-b"), ("a.b", "ab"), ("A", "a")])
def test_other_names_do_not_collide(name: str, other: str) -> None:
    assert metric_name(name) != metric_name(other)
