"""The caller's terminal: whether lines can be redrawn, its current size, the characters it can show.

Decides from the environment and from the output file. Draws nothing.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TextIO

from rich.console import Console

_COLUMNS_MIN: Final = 20
_ROWS_MIN: Final = 5
_C_LOCALES: Final = ("C", "POSIX")
_NO_SIZE: Final = (("COLUMNS", "0"), ("LINES", "0"))


class Size(NamedTuple):
    """Of a terminal, in characters."""

    columns: int
    rows: int


class Glyphs(NamedTuple):
    """The characters beyond ASCII that a view is drawn with; each one column wide."""

    done: str
    left: str
    cut: str


UNICODE: Final = Glyphs(done="━", left="─", cut="…")
ASCII: Final = Glyphs(done="=", left="-", cut="~")


def open_console(*, stderr: bool = False) -> Console:
    """A console that never raises because of a character: it prints unknown ones as escapes."""
    stream = sys.stderr if stderr else sys.stdout
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and stream.errors == "strict":
        reconfigure(errors="backslashreplace")
    # A terminal without a name has no colours, unless the caller says that it does.
    has_colors = bool(os.environ.get("TERM") or os.environ.get("FORCE_COLOR"))
    # With 0 for a width, rich would print nothing at all.
    environ = {name: value for name, value in os.environ.items() if (name, value) not in _NO_SIZE}
    return Console(stderr=stderr, color_system="auto" if has_colors else None, _environ=environ)


def open_closed_descriptors() -> None:
    """Open /dev/null for stdin, stdout or stderr that are closed (`>&-`): the next open file would get their number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def can_redraw(console: Console) -> bool:
    """Whether lines can be redrawn. With FORCE_COLOR rich takes a pipe for a terminal, which it is not."""
    named = bool(console._environ.get("TERM"))
    return console.is_terminal and not console.is_dumb_terminal and named and _is_tty(console.file)


def size_of(console: Console) -> Size:
    """The current size: a user may resize a terminal. COLUMNS and LINES make it smaller, never larger."""
    columns, rows = console.size
    try:
        real = os.get_terminal_size(console.file.fileno())
    except (OSError, ValueError, AttributeError):
        real = None
    if real is not None and real.columns > 0 and real.lines > 0:
        columns = min(_asked("COLUMNS", console._environ) or real.columns, real.columns)
        rows = min(_asked("LINES", console._environ) or real.lines, real.lines)
    return Size(max(columns, _COLUMNS_MIN), max(rows, _ROWS_MIN))


def glyphs_of(console: Console) -> Glyphs:
    """ASCII if the encoding is not Unicode, or if the caller asks for the C locale."""
    environ = console._environ
    # Python itself sets LC_CTYPE to C.UTF-8 where the locale is C.
    asked = [environ.get("LC_ALL"), environ.get("LC_CTYPE", "").replace("C.UTF-8", ""), environ.get("LANG")]
    locale = next((each for each in asked if each), "")
    return UNICODE if console.encoding.startswith("utf") and locale not in _C_LOCALES else ASCII


def printable(console: Console, text: str) -> str:
    """The text as the terminal will show it, so that its length is right: escapes for unknown characters, and `?` for
    control characters, which may come from anybody's events."""
    shown = "".join(each if each.isprintable() else "?" for each in text)
    return shown.encode(console.encoding, "backslashreplace").decode(console.encoding)


def _asked(name: str, environ: Mapping[str, str]) -> int | None:
    value = environ.get(name, "")
    return int(value) if value.isdecimal() and int(value) > 0 else None


def _is_tty(file: TextIO | Any) -> bool:
    try:
        return bool(file.isatty())
    except ValueError:  # closed
        return False
