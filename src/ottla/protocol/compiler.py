"""Compiles the FIELDS of a message class into Python functions that read and write one version of it.

Each struct becomes one function of straight-line code, generated as source. Adjacent fixed-size values become one
`Struct`; the reader checks the count of an array first; unknown tagged fields are skipped.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from ottla.protocol import primitives
from ottla.protocol.message import EncodedStruct, Field, Message
from ottla.protocol.primitives import Reader

# Codes of the struct module and sizes. A uuid is its 16 bytes.
_FIXED: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}

Decoder = Callable[[Reader], Any]
Encoder = Callable[[bytearray, Any], None]


def compile_decoder(message_class: type[Message], version: int, *, is_flexible: bool) -> Decoder:
    """A function that reads this version of the struct."""
    writer = _Source(is_flexible)
    writer.namespace["message_class"] = message_class
    writer.namespace["new"] = message_class.__new__
    lines = ["message = new(message_class)"]
    tagged: list[Field] = []
    run: list[Field] = []
    for field in message_class.FIELDS:
        if not field.is_in(version):
            lines.append(f"message.{field.name} = {_default_expression(field, writer)}")
        elif field.is_tagged_in(version):
            lines.append(f"message.{field.name} = {_default_expression(field, writer)}")
            tagged.append(field)
        elif field.type in _FIXED:
            run.append(field)
        else:
            lines += _decode_run(run, writer)
            run = []
            lines += _decode_variable(field, version, writer)
    lines += _decode_run(run, writer)
    if is_flexible:
        lines += _decode_tagged(tagged, version, writer)
    lines.append("return message")
    decoder: Decoder = writer.function("decode", "reader", lines, f"{message_class.__name__} v{version}")
    return decoder


def compile_encoder(message_class: type[Message], version: int, *, is_flexible: bool) -> Encoder:
    """A function that appends this version of the struct to a bytearray."""
    writer = _Source(is_flexible)
    lines: list[str] = []
    tagged: list[Field] = []
    run: list[Field] = []
    for field in message_class.FIELDS:
        if not field.is_in(version):
            continue
        if field.is_tagged_in(version):
            tagged.append(field)
        elif field.type in _FIXED:
            run.append(field)
        else:
            lines += _encode_run(run, writer)
            run = []
            lines += _encode_variable(field, version, writer)
    lines += _encode_run(run, writer)
    if is_flexible:
        lines += _encode_tagged(tagged, version, writer)
    encoder: Encoder = writer.function("encode", "out, message", lines, f"{message_class.__name__} v{version}")
    return encoder


class _Source:
    """The names that a generated function refers to."""

    def __init__(self, is_flexible: bool) -> None:
        self.is_flexible = is_flexible
        self.namespace: dict[str, Any] = {}

    def name(self, hint: str, value: object) -> str:
        name = f"{hint}_{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def function(self, name: str, arguments: str, lines: list[str], title: str) -> Any:
        body = "".join(f"    {line}\n" for line in lines or ["pass"])
        code = compile(f"def {name}({arguments}):\n{body}", f"<{name} {title}>", "exec")
        exec(code, self.namespace)
        return self.namespace[name]


def _default_expression(field: Field, source: _Source) -> str:
    if field.type.startswith("[]"):
        return "None" if field.nullable_versions else "[]"
    if field.type == "struct":
        return "None" if field.nullable_versions else f"{source.name('struct', field.struct)}()"
    return repr(field.default)


def _decode_run(run: list[Field], source: _Source) -> list[str]:
    if not run:
        return []
    targets = "".join(f"message.{field.name}, " for field in run)
    structure = Struct(">" + "".join(_FIXED[field.type][0] for field in run))
    return [f"{targets.rstrip(' ')} = reader.unpack({source.name('run', structure)})"]


def _decode_variable(field: Field, version: int, source: _Source) -> list[str]:
    """A string, bytes, struct or array; or a single fixed-size value in a tagged field."""
    target = f"message.{field.name}"
    compact = "compact_" if source.is_flexible else ""
    # A null value is never written as a tagged field: a missing field means null.
    nullable = "nullable_" if field.is_nullable_in(version) else ""
    kind = field.type
    if kind in _FIXED:
        return _decode_run([field], source)
    if kind == "string":
        return [f"{target} = reader.{compact}{nullable}string()"]
    if kind in ("bytes", "records"):
        return [f"{target} = reader.{compact}{nullable}blob()"]
    if kind == "struct":
        decoder = source.name("decode", _struct_decoder(field, version, source))
        if nullable:
            return [f"{target} = None if reader.int8() < 0 else {decoder}(reader)"]
        return [f"{target} = {decoder}(reader)"]
    element = kind.removeprefix("[]")
    minimum = _min_element_bytes(field, version, is_flexible=source.is_flexible)
    count = f"count = reader.{compact}{nullable}count({minimum})"
    if element == "uuid":
        value = "[bytes(reader.view_of(16)) for _ in range(count)]"
    elif element in _FIXED:
        code, size = _FIXED[element]
        value = f"reader.unpack_array(count, {code!r}, {size})"
    elif element == "string":
        value = f"[reader.{compact}string() for _ in range(count)]"
    elif element == "bytes":
        value = f"[reader.{compact}blob() for _ in range(count)]"
    else:
        decoder = source.name("decode", _struct_decoder(field, version, source))
        value = f"[{decoder}(reader) for _ in range(count)]"
    return [count, f"{target} = None if count < 0 else {value}" if nullable else f"{target} = {value}"]


def _decode_tagged(tagged: list[Field], version: int, source: _Source) -> list[str]:
    if not tagged:
        return ["reader.skip_tagged_fields()"]
    lines = ["for _ in range(reader.tagged_field_count()):", "    tag = reader.unsigned_varint()"]
    lines.append("    outer_end = reader.enter_tagged_field()")
    keyword = "if"
    for field in sorted(tagged, key=_tag):
        lines.append(f"    {keyword} tag == {field.tag}:")
        lines += ["        " + line for line in _decode_variable(field, version, source)]
        keyword = "elif"
    lines += ["    else:", "        reader.position = reader.end", "    reader.leave_tagged_field(outer_end)"]
    return lines


def _encode_run(run: list[Field], source: _Source) -> list[str]:
    if not run:
        return []
    values = ", ".join(f"message.{field.name}" for field in run)
    structure = Struct(">" + "".join(_FIXED[field.type][0] for field in run))
    return [f"out += {source.name('pack', structure.pack)}({values})"]


def _encode_variable(field: Field, version: int, source: _Source, *, out: str = "out") -> list[str]:
    value = f"message.{field.name}"
    compact = "compact_" if source.is_flexible else ""
    nullable = "nullable_" if field.is_nullable_in(version) else ""
    kind = field.type
    if kind in _FIXED:
        return [f"{out} += {source.name('pack', Struct('>' + _FIXED[kind][0]).pack)}({value})"]
    if kind in ("string", "bytes", "records"):
        return [f"{_writer(compact + nullable + kind, source)}({out}, {value})"]
    if kind == "struct":
        encoder = source.name("encode", _struct_encoder(field, version, source))
        if not nullable:
            return [f"{encoder}({out}, {value})"]
        return [
            f"if {value} is None:",
            f"    {out}.append(255)",
            "else:",
            f"    {out}.append(1)",
            f"    {encoder}({out}, {value})",
        ]
    lines = _encode_array(field, version, source, out)
    if not nullable:
        return lines
    null = f"{out}.append(0)" if source.is_flexible else f'{out} += b"\\xff\\xff\\xff\\xff"'
    return [f"if {value} is None:", f"    {null}", "else:", *("    " + line for line in lines)]


def _encode_array(field: Field, version: int, source: _Source, out: str) -> list[str]:
    value = f"message.{field.name}"
    compact = "compact_" if source.is_flexible else ""
    element = field.type.removeprefix("[]")
    count = f"{_writer(compact + 'count', source)}({out}, len({value}))"
    if element == "struct":
        encoder = source.name("encode", _struct_encoder(field, version, source))
        encoded = source.name("encoded", EncodedStruct)
        return [
            count,
            f"for element in {value}:",
            f"    if element.__class__ is {encoded}:",
            f"        {out} += element.data",
            "    else:",
            f"        {encoder}({out}, element)",
        ]
    if element in _FIXED:
        pack = source.name("pack", Struct(">" + _FIXED[element][0]).pack)
        return [count, f"for element in {value}:", f"    {out} += {pack}(element)"]
    return [count, f"for element in {value}:", f"    {_writer(compact + element, source)}({out}, element)"]


def _encode_tagged(tagged: list[Field], version: int, source: _Source) -> list[str]:
    if not tagged:
        return ["out.append(0)"]
    source.namespace["bytearray"] = bytearray
    lines = ["tagged = []"]
    for field in sorted(tagged, key=_tag):
        value = f"message.{field.name}"
        if field.type.startswith("[]"):
            lines.append(f"if {value} is not None:" if field.nullable_versions else f"if {value}:")
        elif field.type == "struct" and field.struct is not None:
            lines.append(f"if {value} != {source.name('default', field.struct())}:")
        else:
            lines.append(f"if {value} != {field.default!r}:")
        lines.append("    value = bytearray()")
        lines += ["    " + line for line in _encode_variable(field, version, source, out="value")]
        lines.append(f"    tagged.append(({field.tag}, value))")
    write = source.name("write", primitives.write_tagged_fields)
    return [*lines, f"{write}(out, tagged)"]


def _writer(kind: str, source: _Source) -> str:
    return source.name("write", getattr(primitives, "write_" + kind.replace("records", "bytes")))


def _struct_decoder(field: Field, version: int, source: _Source) -> Decoder:
    assert field.struct is not None
    return compile_decoder(field.struct, version, is_flexible=source.is_flexible)


def _struct_encoder(field: Field, version: int, source: _Source) -> Encoder:
    assert field.struct is not None
    return compile_encoder(field.struct, version, is_flexible=source.is_flexible)


def _tag(field: Field) -> int:
    assert field.tag is not None
    return field.tag


def _min_element_bytes(field: Field, version: int, *, is_flexible: bool) -> int:
    element = field.type.removeprefix("[]")
    if element == "struct":
        assert field.struct is not None
        return max(1, _min_struct_bytes(field.struct, version, is_flexible=is_flexible))
    return _min_bytes(element, is_flexible=is_flexible)


def _min_struct_bytes(message_class: type[Message], version: int, *, is_flexible: bool) -> int:
    total = 1 if is_flexible else 0
    for field in message_class.FIELDS:
        if not field.is_in(version) or field.is_tagged_in(version):
            continue
        if field.type == "struct" and not field.is_nullable_in(version):
            assert field.struct is not None
            total += _min_struct_bytes(field.struct, version, is_flexible=is_flexible)
        else:
            total += _min_bytes(field.type, is_flexible=is_flexible)
    return total


def _min_bytes(kind: str, *, is_flexible: bool) -> int:
    if kind in _FIXED:
        return _FIXED[kind][1]
    if is_flexible or kind == "struct":
        return 1
    return 2 if kind == "string" else 4
