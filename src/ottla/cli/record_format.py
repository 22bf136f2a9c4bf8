"""Formats for consumed records: kcat's `-f`, compiled once into a function over many records."""

import re
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, TypeAlias

from ottla.cli.escapes import unescape
from ottla.clients.consumer.values import ConsumerRecord

# From records to the bytes to print.
RecordPrinter: TypeAlias = Callable[[Sequence[ConsumerRecord]], bytes]
_Getter: TypeAlias = Callable[[ConsumerRecord], object]

_TOKEN: Final = re.compile(r"%(.)", re.DOTALL)
_LENGTH: Final = Struct(">i")
TOKENS_HELP: Final = (
    "%s value, %S its length, %R its length as 4 bytes, %k key, %K its length, %t topic, %p partition, %o offset, "
    "%T timestamp, %h headers"
)


def compile_format(text: str, *, null: bytes = b"") -> RecordPrinter:
    """ValueError names an unknown token. Prints `null` for keys and values that are null."""
    getters_of = _getters(null)
    template = bytearray()  # for bytes % values
    getters: list[_Getter] = []
    position = 0
    for match in _TOKEN.finditer(text):
        template += unescape(text[position : match.start()])
        position = match.end()
        token = match[1]
        if token == "%":
            template += b"%%"
        elif token in getters_of:
            conversion, getter = getters_of[token]
            template += conversion
            getters.append(getter)
        else:
            raise ValueError(f"%{token} is not a format token; the tokens are {TOKENS_HELP}, %% a percent sign")
    if text[position:].endswith("%"):
        raise ValueError("a format can't end in a single %")
    template += unescape(text[position:])
    return _printer(bytes(template), getters)


def plain_printer(*, key_delimiter: bytes | None, delimiter: bytes, null: bytes = b"") -> RecordPrinter:
    """Values and the delimiter after each; with a key delimiter, keys before."""
    if key_delimiter is not None:

        def print_keys_and_values(records: Sequence[ConsumerRecord]) -> bytes:
            between, after = key_delimiter, delimiter
            return b"".join(
                [
                    b"".join(
                        (
                            null if (key := record.key) is None else key,
                            between,
                            null if (value := record.value) is None else value,
                            after,
                        )
                    )
                    for record in records
                ]
            )

        return print_keys_and_values

    def print_values(records: Sequence[ConsumerRecord]) -> bytes:
        values = [null if (value := record.value) is None else value for record in records]
        values.append(b"")
        return delimiter.join(values)

    return print_values


def _printer(template: bytes, getters: Sequence[_Getter]) -> RecordPrinter:
    def print_records(records: Sequence[ConsumerRecord]) -> bytes:
        return b"".join([template % tuple([get(record) for get in getters]) for record in records])

    return print_records


def _getters(null: bytes) -> dict[str, tuple[bytes, _Getter]]:
    return {
        "s": (b"%b", lambda record: null if record.value is None else record.value),
        "S": (b"%d", lambda record: -1 if record.value is None else len(record.value)),
        "R": (b"%b", lambda record: _LENGTH.pack(-1 if record.value is None else len(record.value))),
        "k": (b"%b", lambda record: null if record.key is None else record.key),
        "K": (b"%d", lambda record: -1 if record.key is None else len(record.key)),
        "t": (b"%b", lambda record: record.topic.encode()),
        "p": (b"%d", lambda record: record.partition),
        "o": (b"%d", lambda record: record.offset),
        "T": (b"%d", lambda record: record.timestamp_ms),
        "h": (b"%b", _headers_text),
    }


def _headers_text(record: ConsumerRecord) -> bytes:
    return b",".join(
        [b"%b=%b" % (name.encode(), b"NULL" if value is None else value) for name, value in record.headers]
    )
