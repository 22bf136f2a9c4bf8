"""Escapes in delimiters and formats, as in kcat: `\\t`, `\\n`, `\\x1e`, which a shell does not interpret."""

import re
from typing import Final

_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_NAMED: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def unescape(text: str) -> bytes:
    """The bytes; a backslash that begins no escape stands for itself."""
    out = bytearray()
    position = 0
    for match in _ESCAPE.finditer(text):
        out += text[position : match.start()].encode(errors="surrogateescape")
        code = match[1]
        if len(code) == 3:
            out.append(int(code[1:], 16))
        else:
            out += _NAMED.get(code) or match[0].encode(errors="surrogateescape")
        position = match.end()
    return bytes(out + text[position:].encode(errors="surrogateescape"))
