"""How commands show results: tables for people, JSON for programs, notes and progress on stderr.

Data goes to stdout only. On a terminal rich, imported then, draws tables; in a pipe they are plain columns, as wide as
their longest cell, so that nothing is cut. Commands decide what to show, never how.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

import click

# Between two columns of a table on a terminal, and less where the terminal is narrow.
_GAP: Final = 3
_NARROW_GAP: Final = 2
_EDGES: Final = 2


class Column(NamedTuple):
    title: str
    is_number: bool = False


def number(title: str) -> Column:
    """A right-aligned column."""
    return Column(title, is_number=True)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def say(message: str) -> None:
    """A note for the user on stderr; never data."""
    click.echo(message, err=True)


def print_table(columns: Sequence[Column | str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """None becomes `-`, a sequence gets commas, a boolean becomes yes or no."""
    heads = [column if isinstance(column, Column) else Column(column) for column in columns]
    cells = [[_text(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _print_drawn(heads, cells, title)
    else:
        _print_plain(heads, cells, title)


def print_names(columns: Sequence[Column | str], rows: Iterable[Sequence[object]]) -> None:
    """A table on a terminal; in a pipe its first column alone, ready for xargs and grep."""
    if sys.stdout.isatty():
        print_table(columns, rows)
    else:
        for row in rows:
            click.echo(_text(row[0]))


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, which the caller advances; nothing if stderr is a file."""
    if not sys.stderr.isatty() or total <= 1:
        yield lambda done: None
        return
    from rich.console import Console  # late, as in all of this module: most commands need none of it
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, advance=done)


def human_bytes(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _print_drawn(columns: list[Column], rows: list[list[str]], title: str | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=False)
    heads = [column.title for column in columns]
    widths: list[int | None] = [None] * len(columns)
    is_narrow = _EDGES + sum(_widths(heads, rows)) + _GAP * (len(columns) - 1) > console.width
    if is_narrow:
        heads = [head.replace("-", "-\n") for head in heads]
        widths = _fitting_widths(columns, heads, rows, console.width - _NARROW_GAP * (len(columns) - 1))
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=not is_narrow)
    if is_narrow:
        table.padding = (0, _NARROW_GAP - 1, 0, 0)
    for column, head, width in zip(columns, heads, widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        # Folded, never cut: half a topic name is no topic name.
        table.add_column(head, justify=justify, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # as text: a name in brackets is no markup
    console.print(table)


def _fitting_widths(columns: list[Column], heads: list[str], rows: list[list[str]], room: int) -> list[int | None]:
    """Narrows the widest columns of text, but none below a line of its heading. None where that is not enough."""
    widths = _widths(heads, rows)
    least = [
        width if column.is_number else head_width
        for column, width, head_width in zip(columns, widths, _widths(heads, []), strict=True)
    ]
    while sum(widths) > room:
        spare = [index for index, width in enumerate(widths) if width > least[index]]
        if not spare:
            return [None] * len(widths)
        widths[max(spare, key=widths.__getitem__)] -= 1
    return [*widths]


def _widths(heads: list[str], rows: list[list[str]]) -> list[int]:
    return [max([*map(len, head.split("\n")), *(len(row[index]) for row in rows)]) for index, head in enumerate(heads)]


def _print_plain(columns: list[Column], rows: list[list[str]], title: str | None) -> None:
    widths = _widths([column.title for column in columns], rows)
    lines = [] if title is None else [title]
    for row in [[column.title for column in columns], *rows]:
        cells = (
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    click.echo("\n".join(lines))


def _text(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return ",".join(str(item) for item in value) or "-"
    return str(value)
