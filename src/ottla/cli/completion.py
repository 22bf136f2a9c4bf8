"""Completion in a shell: `ottla completion`, and names of topics and groups, asked of the cluster within a moment."""

import os
from collections.abc import Callable, Iterable
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from ottla.cli.options import BOOTSTRAP_VARIABLE, CLIENT_ID, DEFAULT_BOOTSTRAP
from ottla.clients.admin import Admin
from ottla.clients.errors import ClientError
from ottla.core.config.definition import ConfigError

_SHELLS = ("bash", "zsh", "fish")
# A user waits after the tab key: better no names than late ones.
_CONNECT_TIMEOUT_MS: Final = 400
_REQUEST_TIMEOUT_MS: Final = 800


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  ottla completion bash > ~/.local/share/bash-completion/completions/ottla
    zsh:   ottla completion zsh > "${fpath[1]}/_ottla"
    fish:  ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    from ottla.cli.main import cli  # late: main finds its commands by importing modules such as this one

    shell_class = get_completion_class(shell)
    assert shell_class is not None, f"click completes for {shell}"
    click.echo(shell_class(cli, {}, "ottla", "_OTTLA_COMPLETE").source())


def complete_topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _items(context, parameter, incomplete, Admin.list_topics)


def complete_groups(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _items(context, parameter, incomplete, lambda admin: [group.group_id for group in admin.list_groups()])


def complete_topic_keys(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ottla.core.config.topic_keys import TOPIC_DEFINITION  # late: only the tab key needs it

    return [CompletionItem(name) for name in sorted(TOPIC_DEFINITION.keys) if name.startswith(incomplete)]


def _items(
    context: click.Context, parameter: click.Parameter, incomplete: str, ask: Callable[[Admin], Iterable[str]]
) -> list[CompletionItem]:
    bootstrap = context.params.get("bootstrap") or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    words = context.params.get(parameter.name or "")
    given = words if isinstance(words, tuple) else ()
    try:
        with Admin(
            bootstrap_servers=bootstrap,
            client_id=CLIENT_ID,
            socket_connection_setup_timeout_ms=_CONNECT_TIMEOUT_MS,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            default_api_timeout_ms=0,
        ) as admin:
            names = list(ask(admin))
    except (ClientError, ConfigError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and name not in given]
