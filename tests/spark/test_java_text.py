"""Options and paths as Java and Spark read them."""

import os
from pathlib import Path

import pytest

from ottla.spark.java_text import UnreadableName, java_path, option_string


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-XX:TieredStopAtLevel=1", "-Dx=y"], "-XX:TieredStopAtLevel=1 -Dx=y"),
        (["-Dx=a b"], '"-Dx=a b"'),
        (['-Dx="a\\b"'], '"-Dx=\\"a\\\\b\\""'),
        (["-Dx=it's"], '"-Dx=it\'s"'),
        (["-Dx=a\nb"], '"-Dx=a\nb"'),
        ([""], '""'),
    ],
)
def test_options_are_quoted_as_spark_splits_them(options: list[str], expected: str) -> None:
    assert option_string(options) == expected


@pytest.mark.parametrize("odd", list(" é+@%#?,:'\"$\\\n{}[]*"))
def test_a_path_is_spelt_as_it_is_with_no_escapes(odd: str) -> None:
    assert java_path(Path(f"/data/a{odd}b%20")) == f"/data/a{odd}b%20"


def test_a_relative_path_is_made_absolute_and_keeps_its_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert java_path(Path("link/x")) == f"{tmp_path}/link/x"


def test_a_name_that_is_not_utf8_is_refused_in_words() -> None:
    with pytest.raises(UnreadableName, match="the name is not UTF-8, so Java can't open it; rename the folder"):
        java_path(Path(os.fsdecode(b"/data/caf\xe9")))
