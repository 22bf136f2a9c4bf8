"""Shared by the pipeline's commands: the store, the settings, and the error for a missing extra."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from ottla.core.config.definition import ConfigError
from ottla.core.extras import ExtraMissing, needs_extra
from ottla.links.addresses import parse_bootstrap
from ottla.spark.foreign_spark import set_aside_foreign_spark

if TYPE_CHECKING:
    from ottla.pipeline.settings import Settings
    from ottla.pipeline.stores.port import Store

EMBEDDED: Final = "embedded"
CASSANDRA: Final = "cassandra"

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class StoreChoice(NamedTuple):
    kind: str
    path: Path | None
    cassandra: str | None

    @property
    def place(self) -> str:
        return str(self.path) if self.cassandra is None else self.cassandra


def bootstrap_option(command: CommandT) -> CommandT:
    """`--bootstrap`, given to the command as `bootstrap`."""
    return click.option(
        "--bootstrap",
        "-b",
        required=True,
        callback=_checked_bootstrap,
        metavar="HOST:PORT,…",
        help="Brokers to connect to first.",
    )(command)


def store_options(command: CommandT) -> CommandT:
    """`--store`, `--store-path` and `--cassandra`; `store_choice` combines them."""
    for option in (
        click.option(
            "--cassandra", "cassandra", metavar="HOST:PORT/KEYSPACE", help="Address of the tables in Cassandra."
        ),
        click.option(
            "--store-path",
            "store_path",
            type=click.Path(file_okay=False, path_type=Path),
            help="The folder of an embedded store.",
        ),
        click.option(
            "--store",
            "store",
            type=click.Choice([EMBEDDED, CASSANDRA]),
            default=EMBEDDED,
            show_default=True,
            help="Where the tables are.",
        ),
    ):
        command = option(command)
    return command


def settings_option(command: CommandT) -> CommandT:
    """`--config`, given to the command as `config`."""
    return click.option(
        "--config",
        "config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Settings of the pipeline, a TOML file.",
    )(command)


def store_choice(store: str, store_path: Path | None, cassandra: str | None) -> StoreChoice:
    """Combines the three options; UsageError if they don't fit together."""
    if store == EMBEDDED and store_path is None:
        raise click.UsageError("an embedded store needs a folder: --store-path DIR")
    if store == EMBEDDED and cassandra is not None:
        raise click.UsageError("--cassandra goes with --store cassandra")
    if store == CASSANDRA and cassandra is None:
        raise click.UsageError("a store in Cassandra needs an address: --cassandra HOST:PORT/KEYSPACE")
    if store == CASSANDRA and store_path is not None:
        raise click.UsageError("--store-path goes with --store embedded")
    return StoreChoice(store, store_path, cassandra)


@contextmanager
def opened_store(choice: StoreChoice, *, may_be_new: bool = False) -> Iterator["Store"]:
    """The store, closed at the end; fails without tables unless it may be new. A StoreError ends the command."""
    with extras_installed():
        from ottla.pipeline.stores.opening import open_store
        from ottla.pipeline.stores.port import StoreError
    try:
        with extras_installed():
            store = open_store(choice.kind, path=choice.path, cassandra=choice.cassandra)
        try:
            if not may_be_new and not store.tables():
                raise click.ClickException(f"{choice.place} holds no tables; `ottla pipeline init-store` creates them")
            yield store
        finally:
            store.close()
    except StoreError as error:
        raise click.ClickException(str(error)) from error


def loaded_settings(path: Path | None) -> "Settings":
    from ottla.pipeline.settings import load_settings

    try:
        return load_settings(path)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def extras_installed() -> Iterator[None]:
    """For imports: names the extra that is missing."""
    set_aside_foreign_spark()
    try:
        with needs_extra("this command", "pipeline"):
            yield
    except ExtraMissing as error:
        raise click.ClickException(str(error)) from error


def _checked_bootstrap(context: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        parse_bootstrap(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return value
