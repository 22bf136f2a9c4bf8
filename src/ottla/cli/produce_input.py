"""The input of `ottla produce`: splits it at a delimiter as it comes in, and parses each message.

It sends nothing. A message that can't be parsed raises UnreadableRecord; the caller knows which one it was.
"""

import os
import select
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from ottla.cli.escapes import unescape
from ottla.cli.record_json import Headers, InputRecord, UnreadableRecord

LineParser: TypeAlias = Callable[[bytes], InputRecord]

_READ_BYTES: Final = 256 * 1024
MESSAGE_BYTES_MAX: Final = 512 * 1024 * 1024


class LineRules(NamedTuple):
    """How to parse a line. `is_key_required`: a line without the delimiter is an error, not a value without a key."""

    key_delimiter: bytes | None = None
    is_key_required: bool = False
    null_marker: bytes | None = None
    is_empty_null: bool = False
    key: bytes | None = None
    headers: Headers = ()
    headers_delimiter: bytes | None = None  # headers are read from the line, up to it
    headers_separator: bytes = b","
    header_name_separator: bytes = b":"


# The properties of Kafka's line reader that concern lines.
_PROPERTIES: Final = (
    "parse.key",
    "key.separator",
    "parse.headers",
    "headers.delimiter",
    "headers.separator",
    "headers.key.separator",
    "null.marker",
)


def rules_with_properties(rules: LineRules, properties: Mapping[str, str]) -> LineRules:
    """From properties of Kafka's console producer; ValueError names an unknown one."""
    for name, text in properties.items():
        if name not in _PROPERTIES:
            raise ValueError(f"no property {name!r} of lines; there are {', '.join(_PROPERTIES)}")
        if name.startswith("parse.") and text not in ("true", "false"):
            raise ValueError(f"{name}={text}: expected true or false")
    if properties.get("parse.key") == "true":
        separator = unescape(properties.get("key.separator", "\t"))
        rules = rules._replace(key_delimiter=separator, is_key_required=True)
    if properties.get("parse.headers") == "true":
        rules = rules._replace(
            headers_delimiter=unescape(properties.get("headers.delimiter", "\t")),
            headers_separator=unescape(properties.get("headers.separator", ",")),
            header_name_separator=unescape(properties.get("headers.key.separator", ":")),
        )
    if "null.marker" in properties:
        rules = rules._replace(null_marker=unescape(properties["null.marker"]))
    return rules


def line_parser(rules: LineRules) -> LineParser:
    """The parser of lines for these rules; the common case is short."""
    if rules == LineRules():
        return InputRecord
    marker = rules.null_marker

    def data_of(text: bytes) -> bytes | None:
        if text == marker or (not text and rules.is_empty_null):
            return None
        return text

    def parse(line: bytes) -> InputRecord:
        headers = rules.headers
        if rules.headers_delimiter is not None:
            text, found, line = line.partition(rules.headers_delimiter)
            if not found:
                raise UnreadableRecord(f"no headers delimiter {_shown(rules.headers_delimiter)} in it")
            headers = [*headers, *_headers_in(text, rules)]
        key = rules.key
        if rules.key_delimiter is not None:
            before, found, after = line.partition(rules.key_delimiter)
            if found:
                key, line = data_of(before), after
            elif rules.is_key_required:
                raise UnreadableRecord(f"no key separator {_shown(rules.key_delimiter)} in it")
        return InputRecord(data_of(line), key, headers)

    return parse


def _headers_in(text: bytes, rules: LineRules) -> Iterator[tuple[str, bytes | None]]:
    if not text or text == rules.null_marker:
        return
    for pair in text.split(rules.headers_separator):
        name, found, value = pair.partition(rules.header_name_separator)
        if not found:
            raise UnreadableRecord(f"header {_shown(pair)} has no {_shown(rules.header_name_separator)} in it")
        try:
            yield name.decode(), None if value == rules.null_marker else value
        except UnicodeDecodeError:
            raise UnreadableRecord(f"header name {_shown(name)} is not UTF-8") from None


def _shown(data: bytes) -> str:
    return repr(data)[1:]


class MessageSource:
    """Messages of one open file, pipe or terminal, as they come in. Does not own the descriptor."""

    def __init__(self, file_number: int, delimiter: bytes) -> None:
        self.bytes_read = 0
        self.is_at_end = False
        self._file_number = file_number
        self._delimiter = delimiter
        self._rest = bytearray()
        self._poll = select.poll()
        self._poll.register(file_number, select.POLLIN)

    def read(self, timeout_ms: int) -> list[bytes]:
        """The messages that are complete now, after a wait for input; may be empty before the end."""
        if self.is_at_end or not self._poll.poll(timeout_ms):
            return []
        chunk = os.read(self._file_number, _READ_BYTES)
        self.bytes_read += len(chunk)
        if not chunk:
            self.is_at_end = True
            last, self._rest = bytes(self._rest), bytearray()
            return [last] if last else []
        rest = self._rest
        # A long message that comes in pieces is not searched again from its start for each piece.
        is_cut = len(self._delimiter) == 1 and self._delimiter not in chunk
        rest += chunk
        if is_cut:
            if len(rest) > MESSAGE_BYTES_MAX:
                raise UnreadableRecord(f"no delimiter within {MESSAGE_BYTES_MAX} bytes")
            return []
        messages = bytes(rest).split(self._delimiter)
        self._rest = bytearray(messages.pop())
        return messages
