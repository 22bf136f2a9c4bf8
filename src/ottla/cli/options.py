"""Shared by every command that contacts a cluster: the address option, and opening the cluster with clear errors.

It prints nothing; `output.py` does.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from ottla.cli.failures import worded
from ottla.clients.admin import Admin
from ottla.clients.cluster import CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS, RETRY_TIMEOUT_MS
from ottla.clients.errors import BrokerError, ClientError, ConnectionFailed
from ottla.links.addresses import parse_bootstrap

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE: Final = "OTTLA_BOOTSTRAP_SERVER"
CLIENT_ID: Final = "ottla-cli"

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _checked_bootstrap(context: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        parse_bootstrap(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return value


def bootstrap_option(command: CommandT) -> CommandT:
    """`-b/--bootstrap-server`, given to the command as `bootstrap`."""
    return click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,…]",
        default=DEFAULT_BOOTSTRAP,
        envvar=BOOTSTRAP_VARIABLE,
        show_default=True,
        show_envvar=True,
        callback=_checked_bootstrap,
        help="Brokers to connect to first.",
    )(command)


def json_option(command: CommandT) -> CommandT:
    """`--json`, given to the command as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


@contextmanager
def open_admin(bootstrap: str) -> Iterator[Admin]:
    """A connected Admin; failures inside the block end the command with exit code 1."""
    admin = Admin(
        bootstrap_servers=bootstrap,
        client_id=CLIENT_ID,
        socket_connection_setup_timeout_ms=CONNECT_TIMEOUT_MS,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        default_api_timeout_ms=RETRY_TIMEOUT_MS,
        retry_backoff_ms=RETRY_BACKOFF_MS,
    )
    with admin, worded_failures():
        try:
            admin.connect()  # fails at once for a wrong address; only what comes after is worth retries
        except ConnectionFailed as error:
            raise click.ClickException(_not_reached(bootstrap, error)) from error
        yield admin


@contextmanager
def worded_failures() -> Iterator[None]:
    """Failures of a client inside the block end the command with a message and exit code 1."""
    try:
        yield
    except BrokerError as error:
        raise click.ClickException(worded(error)) from error
    except ClientError as error:
        raise click.ClickException(str(error)) from error


def _not_reached(bootstrap: str, error: ConnectionFailed) -> str:
    where = "" if bootstrap != DEFAULT_BOOTSTRAP else " (the default)"
    if os.environ.get(BOOTSTRAP_VARIABLE) == bootstrap:
        where = f" (from {BOOTSTRAP_VARIABLE})"
    reason = str(error).removeprefix("no broker was reached for METADATA: ")
    reason = reason.removeprefix(f"{bootstrap}: ").removeprefix("not reached: ")  # not the same address twice
    return (
        f"no broker was reached at {bootstrap}{where}: {reason}\n"
        "Check that a broker runs there, or name another with -b HOST:PORT."
    )
