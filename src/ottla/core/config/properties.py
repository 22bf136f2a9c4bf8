"""Java-style properties: the parser for a `server.properties` file, and overrides on top of it.

Follows java.util.Properties: comments, continued lines, escapes, three separators, the last of equal keys wins.
"""

from collections.abc import Iterable, Mapping

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """Text that is not a property; the message has the line."""


def parse_properties(data: bytes) -> dict[str, str]:
    """The properties in a file's contents: UTF-8 or, where it is invalid as that, Java's old ISO 8859-1."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    properties: dict[str, str] = {}
    for line_number, line in _logical_lines(text):
        key_end, value_start = _split(line)
        key = _unescape(line[:key_end], line_number)
        properties[key] = _unescape(line[value_start:], line_number)
    return properties


def apply_overrides(properties: Mapping[str, str], overrides: Iterable[str]) -> dict[str, str]:
    """`properties` with each `KEY=VALUE` of `overrides` on top, the last one winning; values are taken as they are."""
    merged = dict(properties)
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator or not key.strip():
            raise PropertiesError(f"override {override!r}: expected KEY=VALUE")
        merged[key.strip()] = value.strip()
    return merged


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Lines without comments and blanks, continued ones joined, each with the number of its first line."""
    # Not splitlines(): it also breaks at characters that Java leaves inside a value.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    position = 0
    while position < len(lines):
        line_number = position + 1
        line = lines[position].lstrip(_BLANKS)
        position += 1
        if not line or line[0] in "#!":  # a comment is never continued
            continue
        parts = []
        while _is_continued(line):
            parts.append(line[:-1])
            if position == len(lines):
                line = ""
                break
            line = lines[position].lstrip(_BLANKS)
            position += 1
        parts.append(line)
        if logical_line := "".join(parts):
            yield line_number, logical_line


def _is_continued(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1  # an even number is escaped backslashes


def _split(line: str) -> tuple[int, int]:
    """Where the key ends and where the value starts: `=`, `:` or blanks are between them."""
    position, length = 0, len(line)
    while position < length and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key_end = min(position, length)
    value_start = _skip_blanks(line, key_end)
    if value_start < length and line[value_start] in "=:":
        value_start = _skip_blanks(line, value_start + 1)
    return key_end, value_start


def _skip_blanks(line: str, position: int) -> int:
    while position < len(line) and line[position] in _BLANKS:
        position += 1
    return position


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    parts = []
    position = 0
    while (backslash := text.find("\\", position)) >= 0:
        parts.append(text[position:backslash])
        escaped = text[backslash + 1 : backslash + 2]
        position = backslash + 2
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise PropertiesError(f"line {line_number}: \\u{digits} is not \\u and four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    parts.append(text[position:])
    # Java writes a character beyond 16 bits as two escapes, a surrogate pair: joined here.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
