"""`ottla store`: shows the coordination store of a broker, even while it runs. It changes nothing."""

import json
from typing import Any

import click

from ottla.coordination.embedded_file import STORE_FILE_NAME, StoreReader
from ottla.coordination.store import Result, StoreOpenError, check_path


def _node_path(context: click.Context, parameter: click.Parameter, value: str) -> str:
    path = value.rstrip("/") or "/"  # a slash at the end is forgiven
    try:
        check_path(path)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return path


_path_argument = click.argument("path", callback=_node_path, default="/")
_data_dir_option = click.option(
    "--data-dir",
    default="data",
    show_default=True,
    type=click.Path(file_okay=False),
    help=f"The broker's data directory, with {STORE_FILE_NAME} in it.",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def store() -> None:
    """Show the nodes of a broker's embedded coordination store, also while the broker runs."""


@store.command("ls")
@_path_argument
@_data_dir_option
@_json_option
def list_children(path: str, data_dir: str, as_json: bool) -> None:
    """List the children of the node PATH."""
    with _open(data_dir) as reader:
        children = _read(reader, path).children
    if as_json:
        click.echo(json.dumps(children))
    else:
        for name in children:
            click.echo(name)


@store.command("get")
@click.argument("path", callback=_node_path)
@_data_dir_option
@_json_option
def get_value(path: str, data_dir: str, as_json: bool) -> None:
    """Print the value of the node PATH; with --json also its metadata."""
    with _open(data_dir) as reader:
        node = _read(reader, path)
    if as_json:
        click.echo(json.dumps(_as_object(node)))
    else:
        click.echo(node.value)


@store.command("tree")
@_path_argument
@_data_dir_option
@_json_option
def show_tree(path: str, data_dir: str, as_json: bool) -> None:
    """Print the node PATH and all nodes below it, with their values; with --json one object per line."""
    with _open(data_dir) as reader:
        waiting = [(path, 0)]
        while waiting:
            path, depth = waiting.pop()
            node = _read(reader, path)
            if as_json:
                click.echo(json.dumps(_as_object(node)))
            else:
                name = path if depth == 0 else path.rpartition("/")[2]
                mark = " (ephemeral)" if node.stat is not None and node.stat.ephemeral_owner else ""
                value = f" = {node.value.decode('utf-8', 'backslashreplace')}" if node.value else ""
                click.echo(f"{'  ' * depth}{name}{mark}{value}")
            base = path.rstrip("/")
            waiting += [(f"{base}/{name}", depth + 1) for name in reversed(node.children)]


def _open(data_dir: str) -> StoreReader:
    try:
        return StoreReader(f"{data_dir}/{STORE_FILE_NAME}")
    except StoreOpenError as error:
        raise click.ClickException(str(error)) from error


def _read(reader: StoreReader, path: str) -> Result:
    try:
        node = reader.read(path)
    except StoreOpenError as error:
        raise click.ClickException(str(error)) from error
    if not node.is_ok:
        raise click.ClickException(f"there is no node {path} in this store; `ottla store ls` shows what there is")
    return node


def _as_object(node: Result) -> dict[str, Any]:
    assert node.stat is not None
    value = node.value.decode("utf-8", "backslashreplace")
    return {"path": node.path, "value": value, "children": node.children, **node.stat._asdict()}
