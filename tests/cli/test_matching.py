"""Names and patterns of a command line."""

from ottla.cli.matching import match

KNOWN = ["orders", "orders-eu", "payments", "__internal", "odd[1]"]


def test_names_keep_the_order_of_the_command_line_and_come_once() -> None:
    assert match(["payments", "orders", "orders*"], KNOWN, kind="topic").names == ["payments", "orders", "orders-eu"]


def test_a_pattern_means_hidden_names_never_and_a_name_always() -> None:
    assert "__internal" not in match(["*"], KNOWN, kind="topic", hidden=["__internal"]).names
    assert match(["__internal"], KNOWN, kind="topic", hidden=["__internal"]).names == ["__internal"]


def test_a_name_that_looks_like_a_pattern_means_itself() -> None:
    assert match(["odd[1]"], KNOWN, kind="group").names == ["odd[1]"]


def test_what_means_nothing_is_told_with_the_nearest_name() -> None:
    problems = match(["order", "x*", "zzz"], KNOWN, kind="topic").problems
    assert problems == [
        "topic order: no such topic; did you mean orders?",
        "topic x*: nothing matches this pattern",
        "topic zzz: no such topic",
    ]
