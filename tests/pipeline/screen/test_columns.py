"""Tables for a width: columns go before a digit does."""

import re

import pytest

from ottla.pipeline.screen.columns import Column, cut, table_lines
from ottla.pipeline.screen.job_table import JobRow, job_lines
from ottla.pipeline.screen.terminal import ASCII, UNICODE

ROWS = [
    JobRow("collect", 11_098.4, 1_131_328, 1_130_001, 109_312, 4_764, 12, 40_000, 2_887, 2_010, 126, 0, "running"),
    JobRow("income_and_tasks", 0, 42_541, 28_157, None, None, 0, 0, 232, 0, 0, 3, "waiting to restart"),
]


def shown(width: int) -> list[str]:
    return [line.plain for line in job_lines(ROWS, width=width, glyphs=UNICODE)]


@pytest.mark.parametrize("width", range(19, 220))
def test_no_line_is_longer_than_the_width_and_no_figure_is_cut(width: int) -> None:
    lines = shown(width)
    assert max(len(line) for line in lines) <= width
    known = {"11,098", "1,131,328", "1,130,001", "109,312", "4,764", "12", "3,333", "2,887", "2,010", "126", "0", "-"}
    figures = [word for word in lines[1].split() if word[0].isdigit() or word == "-"]
    assert figures
    assert set(figures) <= known


def test_columns_go_by_their_rank_and_the_lag_stays() -> None:
    assert "restarts" in shown(199)[0]
    assert shown(79)[0].split() == ["job", "ev/s", "read", "written", "lag", "ms", "state"]
    assert shown(59)[0].split() == ["job", "ev/s", "read", "lag", "state"]
    assert "lag" in shown(30)[0]


def test_text_is_cut_with_a_mark_that_the_terminal_knows() -> None:
    columns = [Column("job", ["income_and_tasks"], is_text=True), Column("lag", ["1,234,567"])]
    (_, row) = table_lines(columns, width=20, glyphs=ASCII)
    assert row.plain == "income_a~  1,234,567"


def test_short_titles_come_before_columns_go() -> None:
    columns = [Column("job", ["a"], is_text=True), Column("duplicates", ["7"], 5, "dup.")]
    assert table_lines(columns, width=13, glyphs=ASCII)[0].plain == "job  dup."


@pytest.mark.parametrize("width", range(1, 60))
def test_text_is_never_cut_inside_a_figure(width: int) -> None:
    text = "9 invites in 300 s (0.3); 1,314 of ±20"
    kept = cut(text, width, ASCII)
    assert len(kept) <= width
    if kept != text:
        assert kept.endswith("~")
        assert set(re.findall(r"[\d.,]+", kept)) <= set(re.findall(r"[\d.,]+", text))
