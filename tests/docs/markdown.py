"""The pages of the project, and what a test needs of their Markdown: code blocks, inline code, links, anchors.

How a page marks its code:

- `sh` is pasted into one terminal, from the top of the page to its end, in an empty folder. A process that goes on is
  started with `&`, and the page itself stops it.
- `python` is a script of its own, run in that folder.
- `text` straight after one of these is what it prints on standard output. `…` stands for anything within a line; a line
  that is only `…` stands for any number of lines.
- `console` is a session that needs more than a test has: lines with `$` are commands, the others their output.

Everything else (`toml`, `properties`, `yaml`, drawings without a name) is not run.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^(`{3,})\s*([\w-]*)\s*$")


class Block(NamedTuple):
    """A fenced block; `line` is where its fence is, from 1 on; `shown` is the output that the page promises."""

    language: str
    text: str
    line: int
    shown: str | None = None


def name_of(page: Path) -> str:
    """As a person would name it."""
    return str(page.relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """All fenced blocks in order; output that is shown is part of the block that it belongs to, and no block itself."""
    found: list[Block] = []
    last_end = -1
    for block, end in _fences(text):
        follows = not "".join(text.splitlines()[last_end : block.line - 1]).strip()
        if block.language == "text" and found and found[-1].language in ("sh", "python") and follows:
            found[-1] = found[-1]._replace(shown=block.text)
        else:
            found.append(block)
        last_end = end
    return found


def prose(text: str) -> str:
    """The page without its fenced blocks; lines keep their numbers."""
    lines = text.splitlines()
    for block, end in _fences(text):
        for number in range(block.line - 1, end):
            lines[number] = ""
    return "\n".join(lines)


def inline_code(text: str) -> list[str]:
    """What stands between single backticks."""
    return [code.replace("\n", " ") for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(text))]


def links(text: str) -> list[str]:
    """Where links and pictures lead to."""
    without_code = re.sub(r"`[^`]*`", "", prose(text))
    return re.findall(r"\]\(([^)\s]+)\)", without_code) + re.findall(r'(?:src|href)="([^"]+)"', without_code)


def anchors(text: str) -> set[str]:
    """The names that a link's `#…` may have: of headings, as GitHub makes them, and of explicit anchors."""
    names: set[str] = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#{1,6} +(.+?) *$", prose(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in names:
            number += 1
        names.add(name)
    return names


def _fences(text: str) -> Iterator[tuple[Block, int]]:
    """Each block, and the number of the line after its closing fence, from 0 on."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        number += 1
        if opening is None:
            continue
        start = number
        while lines[number] != opening[1]:  # a fence that is never closed is an IndexError: the page is broken
            number += 1
        number += 1
        yield Block(opening[2], "\n".join(lines[start : number - 1]) + "\n", start), number
