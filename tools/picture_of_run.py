"""A picture of the live view of a real `make run`, as SVG: docs/make-run.svg, or any file for any size of terminal.

    .venv/bin/python tools/picture_of_run.py
    .venv/bin/python tools/picture_of_run.py --columns 60 --rows 24 --seconds 20 build/run-60.svg

Runs the demo on a terminal of its own and takes the view at the moment when the given share of the traffic is sent.
Writes nothing unless the run ends well. The picture refers to nothing outside of itself. Not one of the generated files
that are checked: every run has other figures.
"""

import argparse
import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

DEFAULT_PATH = Path("docs/make-run.svg")
HOME = "\x1b[H"
END_OF_VIEW = "\x1b[?25h"
DONE, LEFT = "━", "─"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OTHER_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\r")
FONT_FACE = re.compile(r"@font-face\s*{{.*?}}\s*", re.DOTALL)
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
TEXT = re.compile(
    r'<text class="(?P<style>[^"]+)" x="(?P<x>[^"]+)" (?P<y>y="[^"]+") textLength="(?P<length>[^"]+)"'
    r"(?P<rest>[^>]*)>(?P<words>[^<]*)</text>"
)
SPACE = "&#160;"
GAPS = re.compile(f"(?:{SPACE}){{2,}}|^{SPACE}")
ABOUT = re.compile(r"\s*<!--.*?-->", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path, nargs="?", default=DEFAULT_PATH, help=f"default: {DEFAULT_PATH}")
    parser.add_argument("--columns", type=int, default=92)
    parser.add_argument("--rows", type=int, default=26)
    parser.add_argument("--seconds", type=float, default=60, help="how long traffic is sent; default: 60")
    parser.add_argument("--at", type=float, default=0.8, help="the share of the traffic that is sent; default: 0.8")
    parser.add_argument("--text", action="store_true", help="also print the view, without colours")
    asked = parser.parse_args()

    command = [sys.executable, "-m", "ottla.pipeline.demo", "--seconds", str(asked.seconds)]
    written, exit_code = run_on_terminal(command, columns=asked.columns, rows=asked.rows)
    if exit_code != 0:
        print(COLOURS.sub("", written)[-2000:], file=sys.stderr)
        print(f"no picture: the run ended with {exit_code}", file=sys.stderr)
        return 1
    frame = frame_at(frames(written), asked.at)
    if frame is None:
        print(f"no picture: no view of the run has {asked.at:.0%} of the traffic sent", file=sys.stderr)
        return 1
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_text(svg(frame, columns=asked.columns), encoding="utf-8")
    print(asked.path)
    if asked.text:
        print("\n".join(COLOURS.sub("", line) for line in frame))
    return 0


def run_on_terminal(command: list[str], *, columns: int, rows: int) -> tuple[str, int]:
    """All that it writes, and how it ends."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    hidden = ("COLUMNS", "LINES", "NO_COLOR", "LC_ALL")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so where others give an empty part
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    return b"".join(parts).decode("utf-8", errors="replace"), process.wait()


def frames(written: str) -> Iterator[list[str]]:
    """Each view that was drawn, as lines with their colours."""
    for drawn in written.split(HOME)[1:]:
        lines = OTHER_CONTROL.sub("", drawn.partition(END_OF_VIEW)[0]).split("\n")
        if any(line.strip() for line in lines):
            yield lines


def frame_at(views: Iterator[list[str]], share: float) -> list[str] | None:
    """The first with at least this share of the bar; never one from after the traffic."""
    for lines in views:
        bar = next((line for line in lines if "sending" in line), "")
        done, left = bar.count(DONE), bar.count(LEFT)
        if done + left and done / (done + left) >= share:
            return lines
    return None


def svg(lines: list[str], *, columns: int) -> str:
    console = Console(record=True, width=columns, file=StringIO(), force_terminal=True, color_system="truecolor")
    for line in [*lines, ""]:  # the last one is drawn cut off
        console.print(Text.from_ansi(line), soft_wrap=True, highlight=False)
    # rich's own has fonts from the web; a picture in a README may load nothing.
    layout = ABOUT.sub("", FONT_FACE.sub("", CONSOLE_SVG_FORMAT)).replace("Fira Code, monospace", FONTS)
    picture = console.export_svg(title="make run", code_format=layout, unique_id="make-run")
    return TEXT.sub(_parts, picture)


def _parts(text: re.Match[str]) -> str:
    """Each piece between wide gaps at its own place: fonts are not all equally wide, and some viewers drop spaces."""
    words = text["words"]
    width = float(text["length"]) / len(html.unescape(words))
    found, at = [], 0
    for gap in [*GAPS.finditer(words), None]:
        piece = words[at : len(words) if gap is None else gap.start()]
        if piece:
            x = float(text["x"]) + width * len(html.unescape(words[:at]))
            length = width * len(html.unescape(piece))
            place = f'x="{x:g}" {text["y"]} textLength="{length:g}"'
            found.append(f'<text class="{text["style"]}" {place}{text["rest"]}>{piece}</text>')
        if gap is not None:
            at = gap.end()
    return "".join(found)


if __name__ == "__main__":
    sys.exit(main())
