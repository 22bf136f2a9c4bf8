"""`ottla dump-log`: prints files of a log directory in the format of Kafka's dump tool, and their problems."""

import json
from base64 import b64encode

import click

from ottla.storage.dump import DumpEntry, DumpProblem, FieldValue, UnknownFile, dump_file, log_base_offset
from ottla.storage.real_disk import RealDisk

_DATA_FIELDS = ("key", "payload")


@click.command("dump-log")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option("--deep", is_flag=True, help="Also read the records of each batch.")
@click.option("--print-data-log", "print_data", is_flag=True, help="Print keys and values too; implies --deep.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line instead of text.")
@click.option("--verify", is_flag=True, help="Check everything, records included; print problems and a count per file.")
@click.pass_context
def dump_log(
    context: click.Context, files: tuple[str, ...], deep: bool, print_data: bool, as_json: bool, verify: bool
) -> None:
    """Print and check segments (.log), indexes (.index, .timeindex, .txnindex), producer snapshots and checkpoints.

    Reads the files of Ottla and of Apache Kafka. Exit code 1 when any file has a problem.
    """
    disk = RealDisk()
    problems = 0
    for path in files:
        entries = 0
        file_problems = 0
        try:
            dumped = dump_file(disk, path, with_records=deep or print_data or verify)
        except UnknownFile as error:
            raise click.BadParameter(str(error), param_hint="FILES") from None
        if not as_json and not verify:
            click.echo(f"Dumping {path}")
            if (base_offset := log_base_offset(path)) is not None:
                click.echo(f"Log starting offset: {base_offset}")
        for item in dumped:
            if isinstance(item, DumpProblem):
                file_problems += 1
                _show_problem(path, item, as_json=as_json)
                continue
            entries += item.kind != "record"
            if not verify:
                click.echo(_json_line(path, item, print_data) if as_json else _text_line(item, print_data))
        if verify:
            _show_summary(path, entries=entries, problems=file_problems, as_json=as_json)
        problems += file_problems
    if problems:
        context.exit(1)


def _show_problem(path: str, problem: DumpProblem, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"file": path, "kind": "problem", "message": problem.message}))
    else:
        click.echo(f"{path}: {problem.message}", err=True)


def _show_summary(path: str, *, entries: int, problems: int, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"file": path, "kind": "summary", "entries": entries, "problems": problems}))
    else:
        click.echo(f"{path}: {entries} entries, {problems or 'no'} problem{'' if problems == 1 else 's'}")


def _text_line(entry: DumpEntry, print_data: bool) -> str:
    shown = []
    for name, value in entry.fields.items():
        if name in _DATA_FIELDS and (not print_data or value is None):
            continue
        shown.append(f"{name}: {_text_of(name, value)}")
    return ("| " if entry.kind == "record" else "") + " ".join(shown)


def _text_of(name: str, value: FieldValue) -> str:
    """As Kafka's tool writes it, including Java's text for missing values."""
    if name == "deleteHorizonMs":
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value!r}]"
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    return str(value)


def _json_line(path: str, entry: DumpEntry, print_data: bool) -> str:
    line: dict[str, object] = {"file": path, "kind": entry.kind}
    for name, value in entry.fields.items():
        if name in _DATA_FIELDS and not print_data:
            continue
        if isinstance(value, bytes):
            try:
                line[name] = value.decode()
            except UnicodeDecodeError:
                line[f"{name}Base64"] = b64encode(value).decode()
        else:
            line[name] = value
    return json.dumps(line)
