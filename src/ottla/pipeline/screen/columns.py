"""A table for a given width: it first shortens titles, then leaves columns out, then cuts text. It never cuts a figure.

A pure function from columns and a width to lines.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.text import Text

from ottla.pipeline.screen.terminal import Glyphs

_GAP: Final = 2
_TEXT_MIN: Final = 8
_ESSENTIAL: Final = 1
_IN_FIGURES: Final = frozenset("0123456789.,")


class Column(NamedTuple):
    """Columns with the highest `rank` are left out first, those with 0 and 1 only after all text was cut."""

    title: str
    cells: Sequence[str]
    rank: int = 0
    short_title: str = ""
    is_text: bool = False
    width_min: int = 0  # so that columns do not come and go while figures grow; text is cut to it before they go
    styles: Sequence[str] = ()  # one for each cell


def table_lines(columns: Sequence[Column], *, width: int, glyphs: Glyphs) -> list[Text]:
    """A line of titles and a line for each row, none longer than `width`."""
    chosen, widths = _fit(list(columns), width)
    widths = _with_whole_titles(chosen, widths, width)
    titles = [
        column.title if len(column.title) <= width_of else column.short_title
        for column, width_of in zip(chosen, widths, strict=True)
    ]
    lines = [_line(chosen, widths, titles, ["dim"] * len(chosen), glyphs)]
    for row in range(len(columns[0].cells)):
        styles = [column.styles[row] if column.styles else "" for column in chosen]
        lines.append(_line(chosen, widths, [column.cells[row] for column in chosen], styles, glyphs))
    return lines


def cut(text: str, width: int, glyphs: Glyphs) -> str:
    """As much as fits, with a mark. A figure is left out whole: the first digits of one would be another figure."""
    if len(text) <= width:
        return text
    end = max(width - 1, 0)
    if end and text[end] in _IN_FIGURES:
        while end and text[end - 1] in _IN_FIGURES:
            end -= 1
    return text[:end] + glyphs.cut


def _fit(columns: list[Column], width: int) -> tuple[list[Column], list[int]]:
    while True:
        for is_short in (False, True):
            widths = [_width(column, is_short=is_short) for column in columns]
            if _total(widths) <= width:
                return columns, widths
        widths = _with_text_cut(columns, widths, width, to=[column.width_min for column in columns])
        if _total(widths) <= width:
            return columns, widths
        # The first column names the row and stays.
        worst = max(columns[1:], key=lambda column: column.rank, default=None)
        if worst is None or worst.rank <= _ESSENTIAL:
            widths = _with_text_cut(columns, widths, width, to=[_TEXT_MIN for _ in columns])
            if worst is None or _total(widths) <= width:
                return columns, widths
        columns = [column for column in columns if column is not worst]


def _with_whole_titles(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """Widens columns again where there is room."""
    found = list(widths)
    for index, column in enumerate(columns):
        more = len(column.title) - found[index]
        if not column.is_text and 0 < more <= width - _total(found):
            found[index] += more
    return found


def _with_text_cut(columns: Sequence[Column], widths: Sequence[int], width: int, *, to: Sequence[int]) -> list[int]:
    """Cuts the last columns first; a limit of 0 leaves a column as it is."""
    found = list(widths)
    for index, column in reversed(list(enumerate(columns))):
        too_much = _total(found) - width
        if column.is_text and to[index] and too_much > 0:
            found[index] = max(min(found[index], to[index]), found[index] - too_much)
    return found


def _width(column: Column, *, is_short: bool) -> int:
    title = column.short_title if is_short and column.short_title else column.title
    return max(column.width_min, len(title), *(len(cell) for cell in column.cells), 0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _line(
    columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str], styles: Sequence[str], glyphs: Glyphs
) -> Text:
    line = Text(no_wrap=True)
    for index, (column, width, cell, style) in enumerate(zip(columns, widths, cells, styles, strict=True)):
        if index:
            line.append(" " * _GAP)
        if column.is_text:
            cell = cut(cell, width, glyphs)
            is_last = index == len(columns) - 1
            line.append(cell if is_last else cell.ljust(width), style)
        else:
            line.append(cell.rjust(width), style)
    return line
