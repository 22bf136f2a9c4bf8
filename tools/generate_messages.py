"""Writes src/ottla/protocol/messages/ from the schemas in `kio`, which are generated from Apache Kafka's own.

`kio` has one class for each version of a struct; ours has one for all of them, with the versions of each field.
Run it after raising the version of kio; with --check it writes nothing and fails when the modules are out of date.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import subprocess
import sys
import textwrap
import types
import typing
from pathlib import Path

from kio.schema.index import LoadableEntityType, api_key_map, schema_name_map
from kio.static.constants import EntityType

MESSAGES_DIR = Path(__file__).resolve().parent.parent / "src" / "ottla" / "protocol" / "messages"

APIS = [
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "join_group",
    "heartbeat",
    "leave_group",
    "sync_group",
    "describe_groups",
    "list_groups",
    "sasl_handshake",
    "api_versions",
    "create_topics",
    "delete_topics",
    "delete_records",
    "init_producer_id",
    "offset_for_leader_epoch",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "write_txn_markers",
    "txn_offset_commit",
    "describe_acls",
    "create_acls",
    "delete_acls",
    "describe_configs",
    "alter_configs",
    "alter_replica_log_dirs",
    "describe_log_dirs",
    "sasl_authenticate",
    "create_partitions",
    "create_delegation_token",
    "renew_delegation_token",
    "expire_delegation_token",
    "describe_delegation_token",
    "delete_groups",
    "elect_leaders",
    "incremental_alter_configs",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "offset_delete",
    "describe_client_quotas",
    "alter_client_quotas",
    "describe_user_scram_credentials",
    "alter_user_scram_credentials",
    "update_features",
    "describe_cluster",
    "describe_producers",
    "describe_transactions",
    "list_transactions",
    "consumer_group_heartbeat",
    "consumer_group_describe",
    "list_config_resources",
    "describe_topic_partitions",
]

# Not requests: what consumers write into the opaque bytes of JoinGroup and SyncGroup.
DATA = ["consumer_protocol_subscription", "consumer_protocol_assignment"]

# Ours are plain values: milliseconds instead of timedelta and datetime, 16 bytes instead of UUID, int instead of enum.
PLAIN_TYPES = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
    "uuid": "bytes",
}
ZERO_VALUES = {
    "bool": "False",
    "float64": "0.0",
    "string": '""',
    "bytes": 'b""',
    "records": "None",
    "uuid": "ZERO_UUID",
}


@dataclasses.dataclass
class FieldSpec:
    """One field over all versions."""

    name: str
    type: str
    default: str
    doc: str
    tag: int | None
    struct: str | None
    versions: list[int] = dataclasses.field(default_factory=list)
    nullable_versions: list[int] = dataclasses.field(default_factory=list)
    tagged_versions: list[int] = dataclasses.field(default_factory=list)

    def shape(self) -> tuple[object, ...]:
        return (self.name, self.type, self.default, self.tag, self.struct)


@dataclasses.dataclass
class StructSpec:
    """One struct over all versions; `fields` in the order of the wire."""

    name: str
    fields: list[FieldSpec]
    kind: EntityType
    versions: list[int] = dataclasses.field(default_factory=list)
    flexible_versions: list[int] = dataclasses.field(default_factory=list)


def read_entity(schema: str, kind: LoadableEntityType) -> dict[str, StructSpec]:
    """The structs of a request, a response or a data message; what others refer to comes first, the message last."""
    structs: dict[str, StructSpec] = {}
    for version in sorted(schema_name_map[schema]):
        module = importlib.import_module(schema_name_map[schema][version][kind].split(":")[0])
        docs = read_docs(module)
        for cls in local_dataclasses(module):
            struct = structs.setdefault(cls.__name__, StructSpec(cls.__name__, [], kind))
            if cls.__type__ is EntityType.nested:
                struct.kind = EntityType.nested
            struct.versions.append(version)
            if cls.__flexible__:
                struct.flexible_versions.append(version)
            merge_fields(struct, cls, version, docs)
    return in_dependency_order(structs)


def local_dataclasses(module: types.ModuleType) -> list[typing.Any]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__
    ]


def read_docs(module: types.ModuleType) -> dict[tuple[str, str], str]:
    """The first sentence of each field's documentation."""
    docs: dict[tuple[str, str], str] = {}
    for statement in ast.parse(inspect.getsource(module)).body:
        if not isinstance(statement, ast.ClassDef):
            continue
        field = ""
        for item in statement.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                field = item.target.id
            elif isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
                text = " ".join(str(item.value.value).split())
                docs[statement.name, field] = text.split(". ")[0].rstrip(".") + "."
    return docs


def merge_fields(struct: StructSpec, cls: type, version: int, docs: dict[tuple[str, str], str]) -> None:
    position = 0
    by_name = {field.name: field for field in struct.fields}
    for source in dataclasses.fields(cls):
        seen, is_nullable = read_field(source)
        known = by_name.get(seen.name)
        if known is None:
            # Kafka keeps one order for all versions: a new field goes right after the one before it.
            struct.fields.insert(position, seen)
            known = seen
        elif known.shape()[:2] != seen.shape()[:2] or known.struct != seen.struct:
            raise SystemExit(f"{struct.name}.{seen.name} changes its type in version {version}")
        position = struct.fields.index(known) + 1
        known.default, known.tag = seen.default, seen.tag if seen.tag is not None else known.tag
        known.doc = docs.get((struct.name, source.name), known.doc)
        known.versions.append(version)
        if is_nullable:
            known.nullable_versions.append(version)
        if seen.tag is not None:
            known.tagged_versions.append(version)


def read_field(source: dataclasses.Field[typing.Any]) -> tuple[FieldSpec, bool]:
    annotation, is_nullable = without_none(source.type)
    is_array = typing.get_origin(annotation) is tuple
    if is_array:
        annotation, _ = without_none(typing.get_args(annotation)[0])
    name = source.name
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        wire_type, struct = "struct", annotation.__name__
    else:
        kio_type = source.metadata["kafka_type"]
        wire_type, struct = PLAIN_TYPES.get(kio_type, kio_type), None
        if kio_type.startswith(("timedelta", "datetime")):
            name += "_ms"
    # None stands for -1 and for the zero uuid in kio; on the wire these are plain values.
    if wire_type in ("int64", "uuid") and not is_array:
        is_nullable = False
    default = "None" if is_array or struct else read_default(source, wire_type)
    tag = source.metadata.get("tag")
    return FieldSpec(name, ("[]" if is_array else "") + wire_type, default, "", tag, struct), is_nullable


def without_none(annotation: typing.Any) -> tuple[typing.Any, bool]:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        rest = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
        return rest[0], True
    return annotation, False


def read_default(source: dataclasses.Field[typing.Any], wire_type: str) -> str:
    if source.default is dataclasses.MISSING:
        return ZERO_VALUES.get(wire_type, "0")
    if source.default is None:
        return {"int64": "-1", "uuid": "ZERO_UUID"}.get(wire_type, "None")
    if hasattr(source.default, "total_seconds"):
        return str(round(source.default.total_seconds() * 1000))
    if hasattr(source.default, "value"):
        return str(int(source.default.value))
    return repr(source.default)


def in_dependency_order(structs: dict[str, StructSpec]) -> dict[str, StructSpec]:
    ordered: dict[str, StructSpec] = {}

    def place(struct: StructSpec) -> None:
        for field in struct.fields:
            if field.struct is not None:
                place(structs[field.struct])
        ordered.setdefault(struct.name, struct)

    for struct in structs.values():
        place(struct)
    return ordered


def separate_names(request: dict[str, StructSpec], response: dict[str, StructSpec]) -> list[StructSpec]:
    """Both in one module: a struct that is the same in both stands once, of two different ones both are renamed."""
    clashing = {name for name in request.keys() & response.keys() if request[name] != response[name]}
    for prefix, structs in (("Request", request), ("Response", response)):
        for struct in structs.values():
            for field in struct.fields:
                if field.struct in clashing:
                    field.struct = prefix + field.struct
        for name in clashing:
            structs[name].name = prefix + name
    shared = {struct.name for struct in request.values()}
    return [*request.values(), *(struct for struct in response.values() if struct.name not in shared)]


def span(versions: list[int]) -> str:
    if versions != list(range(versions[0], versions[-1] + 1)):
        raise SystemExit(f"versions with a gap: {versions}")
    return f"({versions[0]}, {versions[-1]})"


def render_struct(struct: StructSpec, api_key: int | None) -> str:
    base = "Message"
    if struct.kind is not EntityType.nested:
        base = "VersionedMessage" if api_key is None else "ApiMessage"
    lines = [f"class {struct.name}({base}):"]
    slots = ", ".join(sorted(repr(field.name) for field in struct.fields))
    lines.append(f"    __slots__ = ({slots}{',' if len(struct.fields) == 1 else ''})")
    lines.append("")
    if base == "ApiMessage":
        lines.append(f"    API_KEY = {api_key}")
    if base != "Message":
        flexible_since = struct.flexible_versions[0] if struct.flexible_versions else "NEVER_FLEXIBLE"
        lines += [f"    VERSIONS = {span(struct.versions)}", f"    FLEXIBLE_SINCE = {flexible_since}"]
    if not struct.fields:
        return "\n".join(lines) + "\n"
    lines.append("    FIELDS = (")
    for field in struct.fields:
        lines += textwrap.wrap(field.doc, 112, initial_indent="        # ", subsequent_indent="        # ")
        lines.append(f"        {render_field(field)},")
    parameters = ", ".join(f"{field.name}: {parameter_type(field)} = {field.default}" for field in struct.fields)
    lines += ["    )", "", f"    def __init__(self, *, {parameters}) -> None:"]
    lines += [f"        {render_assignment(field)}" for field in struct.fields]
    return "\n".join(lines) + "\n"


def render_field(field: FieldSpec) -> str:
    parts = [repr(field.name), repr(field.type), span(field.versions)]
    if field.nullable_versions:
        parts.append(f"nullable_versions={span(field.nullable_versions)}")
    if field.tagged_versions:
        parts += [f"tag={field.tag}", f"tagged_versions={span(field.tagged_versions)}"]
    if field.default != "None":
        parts.append(f"default={field.default}")
    if field.struct:
        parts.append(f"struct={field.struct}")
    return f"Field({', '.join(parts)})"


def value_type(field: FieldSpec) -> str:
    element = field.type.removeprefix("[]")
    python_type = field.struct or PYTHON_TYPES.get(element, "int")
    return f"list[{python_type}]" if field.type.startswith("[]") else python_type


def parameter_type(field: FieldSpec) -> str:
    is_optional = field.nullable_versions or field.default == "None"
    return value_type(field) + (" | None" if is_optional else "")


def render_assignment(field: FieldSpec) -> str:
    if field.nullable_versions or not (field.struct or field.type.startswith("[]")):
        return f"self.{field.name} = {field.name}"
    empty = "[]" if field.type.startswith("[]") else f"{field.struct}()"
    return f"self.{field.name} = {empty} if {field.name} is None else {field.name}"


def render_module(schema: str) -> str:
    title = "".join(word.capitalize() for word in schema.split("_"))
    if schema in DATA:
        api_key = None
        structs = list(read_entity(schema, EntityType.data).values())
        docstring = f"{title}: what consumers tell each other through the group's coordinator."
    else:
        api_key = {name: key for key, name in api_key_map.items()}[schema]
        structs = separate_names(read_entity(schema, EntityType.request), read_entity(schema, EntityType.response))
        docstring = f"{title}, API key {api_key}."
    body = "\n\n".join(render_struct(struct, api_key) for struct in structs)
    candidates = ["NEVER_FLEXIBLE", "ZERO_UUID", "ApiMessage", "Field", "Message", "VersionedMessage"]
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    imports = ", ".join(name for name in candidates if name in used)
    return (
        f'"""{docstring}\n\nWritten by tools/generate_messages.py: change that, not this.\n"""\n\n'
        f"from ottla.protocol.message import {imports}\n\n\n{body}"
    )


def formatted(source: str, path: Path) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def generate() -> dict[Path, str]:
    modules = {schema: render_module(schema) for schema in [*APIS, *DATA]}
    # One run of the formatter for all of them: starting it is what takes the time.
    marker = "# --- next module ---\n"
    joined = marker.join(modules.values())
    parts = formatted(joined, MESSAGES_DIR / "joined.py").split(marker)
    sources = {
        MESSAGES_DIR / f"{schema}.py": part.strip("\n") + "\n" for schema, part in zip(modules, parts, strict=True)
    }
    package = '"""The messages of the protocol, one module for each API. Written by tools/generate_messages.py."""\n'
    return {MESSAGES_DIR / "__init__.py": package, **sources}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a module is out of date")
    arguments = parser.parse_args()
    wanted = generate()
    stale = [path for path, source in wanted.items() if not path.exists() or path.read_text() != source]
    stale += [path for path in MESSAGES_DIR.glob("*.py") if path not in wanted]
    if arguments.check:
        if stale:
            raise SystemExit("out of date, run tools/generate_messages.py: " + ", ".join(path.name for path in stale))
        return
    MESSAGES_DIR.mkdir(exist_ok=True)
    for path in stale:
        if path in wanted:
            path.write_text(wanted[path])
        else:
            path.unlink()
    print(f"{len(wanted)} modules, {len(stale)} written")


if __name__ == "__main__":
    main()
