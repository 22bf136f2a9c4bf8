"""Whether what was printed is what a page shows; `…` is the page's wildcard."""

import re


def matches(shown: str, printed: str) -> bool:
    """Line by line; empty lines and spaces at the ends of lines don't count."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in _lines(shown)
    )
    return re.fullmatch(pattern, "".join(line + "\n" for line in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]
