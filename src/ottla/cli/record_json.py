"""Records as JSON lines, in kcat's field names, and back without loss.

`{"topic", "partition", "offset", "tstype", "ts", "broker", "headers", "key", "payload"}`; headers are one flat list of
names and values. JSON has no bytes: bytes that are not UTF-8 are approximate in the usual field, and exact, as base64,
in `key_base64`, `payload_base64` or `headers_base64`, which readers prefer.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Final, NamedTuple

from ottla.clients.consumer.values import ConsumerRecord
from ottla.core.types import BrokerId, TopicPartition
from ottla.records.fetched_record import LOG_APPEND_TIME

_quoted: Final[Callable[[str], str]] = encode_basestring
Headers = Sequence[tuple[str, bytes | None]]


class UnreadableRecord(ValueError):
    """A line that is not a record; the message says why."""


class InputRecord(NamedTuple):
    """A record to send; the command or the producer chooses fields that are None."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    topic: str | None = None


def json_lines(
    records: Sequence[ConsumerRecord],
    leader_of: Callable[[TopicPartition], BrokerId | None] = lambda topic_partition: None,
) -> bytes:
    """One line for each; `leader_of` gives the broker of each partition."""
    frames: dict[tuple[str, int], tuple[str, str]] = {}  # what is the same for all records of a partition
    lines = []
    for record in records:
        topic_partition = (record.topic, record.partition)
        frame = frames.get(topic_partition)
        if frame is None:
            frame = frames[topic_partition] = _frame(
                TopicPartition(*topic_partition), leader_of(TopicPartition(*topic_partition))
            )
        start, broker = frame
        timestamp_ms, headers = record.timestamp_ms, record.headers
        kind = "logappend" if record.timestamp_type == LOG_APPEND_TIME else "create"
        tstype = kind if timestamp_ms >= 0 else "unknown"
        lines.append(
            f'{start}{record.offset},"tstype":"{tstype}","ts":{timestamp_ms}{broker}'
            f"{_headers_json(headers) if headers else ''}"
            f"{_field_json('key', record.key)}{_field_json('payload', record.value)}}}\n"
        )
    return "".join(lines).encode()


def _frame(topic_partition: TopicPartition, broker_id: BrokerId | None) -> tuple[str, str]:
    return (
        f'{{"topic":{_quoted(topic_partition.topic)},"partition":{topic_partition.partition},"offset":',
        "" if broker_id is None else f',"broker":{broker_id}',
    )


def _field_json(name: str, data: bytes | None) -> str:
    if data is None:
        return f',"{name}":null'
    try:
        return f',"{name}":{_quoted(data.decode())}'
    except UnicodeDecodeError:
        shown = _quoted(data.decode(errors="replace"))
        return f',"{name}":{shown},"{name}_base64":"{b64encode(data).decode()}"'


def _headers_json(headers: Headers) -> str:
    try:
        flat = [text for name, value in headers for text in (name, None if value is None else value.decode())]
        return f',"headers":{json.dumps(flat, ensure_ascii=False)}'
    except UnicodeDecodeError:
        shown = [text for name, value in headers for text in (name, value and value.decode(errors="replace"))]
        exact = [
            text for name, value in headers for text in (name, None if value is None else b64encode(value).decode())
        ]
        return (
            f',"headers":{json.dumps(shown, ensure_ascii=False, default=bytes.decode)}'
            f',"headers_base64":{json.dumps(exact, ensure_ascii=False)}'
        )


def parse_json_record(line: bytes) -> InputRecord:
    """A record from one line; accepts `value` for `payload`, and ignores fields that say where it was read."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(f"no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UnreadableRecord(f"a JSON object was expected, not {type(fields).__name__}")
    value_name = "value" if "value" in fields and "payload" not in fields else "payload"
    topic = fields.get("topic")
    if topic is not None and not isinstance(topic, str):
        raise UnreadableRecord("topic: a string was expected")
    timestamp_ms = _whole_number(fields, "ts")
    return InputRecord(
        value=_bytes_of(fields, value_name),
        key=_bytes_of(fields, "key"),
        headers=_headers_of(fields),
        timestamp_ms=None if timestamp_ms is None or timestamp_ms < 0 else timestamp_ms,
        partition=_whole_number(fields, "partition"),
        topic=topic,
    )


def _bytes_of(fields: dict[str, object], name: str) -> bytes | None:
    exact = fields.get(f"{name}_base64", fields.get("payload_base64") if name == "value" else None)
    if exact is not None:
        return _from_base64(f"{name}_base64", exact)
    text = fields.get(name)
    return None if text is None else _from_text(name, text)


def _headers_of(fields: dict[str, object]) -> Headers:
    name, convert = ("headers_base64", _from_base64) if "headers_base64" in fields else ("headers", _from_text)
    flat = fields.get(name)
    if flat is None:
        return ()
    if not isinstance(flat, list) or len(flat) % 2:
        raise UnreadableRecord(f"{name}: a list of names and values in turn was expected")
    headers = []
    for header_name, value in zip(flat[::2], flat[1::2], strict=True):
        if not isinstance(header_name, str):
            raise UnreadableRecord(f"{name}: {header_name!r} is not a name")
        _from_text(name, header_name)
        headers.append((header_name, None if value is None else convert(name, value)))
    return headers


def _from_text(name: str, text: object) -> bytes:
    if not isinstance(text, str):
        raise UnreadableRecord(f"{name}: a string or null was expected, not {json.dumps(text)[:60]}")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UnreadableRecord(f"{name}: half a surrogate pair, which has no bytes") from None


def _from_base64(name: str, text: object) -> bytes:
    if not isinstance(text, str):
        raise UnreadableRecord(f"{name}: a string was expected")
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError) as error:
        raise UnreadableRecord(f"{name}: no base64: {error}") from error


def _whole_number(fields: dict[str, object], name: str) -> int | None:
    number = fields.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool):
        raise UnreadableRecord(f"{name}: a whole number was expected")
    return number
