"""`ottla completion`: the script that makes a shell complete commands, options, topics and groups."""

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


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
